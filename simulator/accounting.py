"""The books of a simulated run: its workers' sums, its servers' stores, its switches' registers."""

from __future__ import annotations

from analysis.record import Accounting
from experiment.phases.accounting import Lanes, served_pushes, settle
from simulator.session import SimulatedSession


def account(session: SimulatedSession) -> Accounting:
    """Compare what workers have pushed with what servers and switch hold, or every worker, key by key."""
    sent, at_servers, mismatched = 0, 0, 0
    for arm in session.arms.values():
        sent += arm.book.lanes
        if session.config.is_lockstep:
            models = [client.model for client in arm.network.clients]
            mismatched += sum(int((model != arm.book.sums).sum()) for model in models)
            continue
        held = arm.switch.held(arm.network.arm.job, session.trace.space)
        for store in arm.network.stores:
            mine = store.held()
            held[session.trace.space.positions(mine.keys)] += mine.values
            at_servers += int(mine.updates.sum())
        mismatched += int((held != arm.book.sums).sum())
    # Where whole vectors are added, rows do not tell whose lanes these were.
    is_logged = not session.config.is_lockstep
    found = settle(Lanes(sent, 0, at_servers, served_pushes(session.parts), mismatched), is_logged)
    found.overflows = sum(
        arm.switch.overflows() for arm in session.arms.values() if arm.network.arm.settings.aggregates
    )
    return found
