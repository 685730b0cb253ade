from __future__ import annotations

from itertools import chain

from analysis.record import Accounting
from experiment.phases.check_updates import Lanes, count_lanes_served_by_switch, reconcile
from foundation.designs.registry import DesignError, design
from hosts.ledger import count_mismatches
from hotline_simulator.drive import pass_time
from hotline_simulator.session import SimulatedSession

_DRAIN_NS = 100_000_000
"""Time in ns for exchanges under way to finish, after servers have stopped starting new ones."""


def account(session: SimulatedSession) -> Accounting:
    sent, at_servers, mismatched_keys = 0, 0, 0
    combination = design(session.config.design).combination
    for arm in session.arms.values():
        sent += arm.ledger.lanes
        if session.config.is_lockstep:
            # Each worker has the whole model, which must be the sum of all pushes.
            models = [client.model for client in arm.network.clients]
            mismatched_keys += sum(int((model != arm.ledger.sums).sum()) for model in models)
            continue
        arm.network.hold()
        pass_time(arm.network, arm.network.now + _DRAIN_NS)
        if (staleness := arm.network.staleness()) is not None:
            session.record.staleness[arm.network.arm.name] = staleness
        space = session.trace.space
        sums = arm.switch.stored_values(arm.network.arm.job, space)
        if len(sums) != space.n_values:
            raise DesignError(
                f"design {session.config.design}: its switch_state returned {len(sums):,} values; "
                f"expected {space.n_values:,}, one for each of the model"
            )
        for store in arm.network.stores:
            stored = store.contents()
            places = space.value_places(space.positions(stored.keys))
            sums[places] = combination.merge(sums[places], stored.sums)
            at_servers += int(stored.updates.sum())
        mismatched_keys += count_mismatches([arm.ledger.sums], [], sums, space, combination)
    # Designs that add whole vectors do not log the lanes of each push.
    is_logged = not session.config.is_lockstep
    accounting = reconcile(
        Lanes(
            sent=sent,
            unknown=0,
            at_servers=at_servers,
            at_switch=count_lanes_served_by_switch(session.parts),
            mismatched_keys=mismatched_keys,
        ),
        is_logged,
        combination,
    )
    accounting.overflows = sum(
        arm.switch.overflows() for arm in session.arms.values() if arm.network.arm.settings.aggregates
    )
    return accounting


def read_registers(session: SimulatedSession) -> dict[str, int]:
    """Return the registers that the design shows, of the switches of all arms."""
    switches = [arm.switch for arm in session.arms.values()]
    return {
        each.title: each.reduction.of(list(chain(*(switch.read_register(each.name) for switch in switches))))
        for each in design(session.config.design).registers
    }
