from __future__ import annotations

import logging
from typing import Literal, NamedTuple

from analysis.record import COMPILED_CODEC, AgentCost, CapacityCheck, Contention, capacity_of_baseline
from experiment.phases.measure import record_capacity
from experiment.run_config import Config
from experiment.session import START_AHEAD_NS, PlannedBlock, Session
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from hosts.compiled_agents import compiled_agents
from hosts.rpc_cost import RpcCost

log = logging.getLogger(__name__)

WARM_UP_STEPS = 8
_CHECK_SHARE = 0.5  # duration of the check in the middle as a share of the calibration's
END_CHECKS, _END_CHECK_SHARE = 6, 0.15
"""Number of checks at the end, with all arms in turn, and the duration of each: an interval needs six."""
_COMPILED_STEPS = 20  # of 128 RPCs each, which need 20 ms or more
_SCAPY_RPCS = 200  # which need half a second or more


class MeasuredCapacities(NamedTuple):
    """Capacities by arm in steps/s, and what each measurement did not get."""

    rates: dict[str, float]
    contention: dict[str, Contention]


async def probe_capacities(session: Session) -> dict[str, float]:
    [measured] = await measure_capacities(session, "probe", WARM_UP_STEPS)
    return measured.rates


async def calibrate(session: Session, probed_capacity: dict[str, float]) -> None:
    """Run the same steps in all arms, so that their models agree, and set loads from the capacities."""
    steps = _choose_steps(session, capacity_of_baseline(probed_capacity), share=1.0)
    [measured] = await measure_capacities(session, "calibrate", steps)
    record_capacity(session, measured.rates)
    session.record.capacity_contention = measured.contention


async def check_capacity(session: Session, when: Literal["middle", "end"]) -> None:
    times, share = (END_CHECKS, _END_CHECK_SHARE) if when == "end" else (1, _CHECK_SHARE)
    steps = _choose_steps(session, capacity_of_baseline(session.record.capacity), share)
    for rates, contention in await measure_capacities(session, f"check, {when}", steps, times):
        session.record.capacity_checks.append(CapacityCheck(when=when, capacity=rates, contention=contention))


def _choose_steps(session: Session, capacity: float, share: float) -> int:
    return max(WARM_UP_STEPS, round(capacity / session.config.workers * session.config.calibration_s * share))


async def measure_capacities(
    session: Session, phase: str, steps: int, times: int = 1
) -> list[MeasuredCapacities]:
    """Measure all arms in turn, `times` times: in the same steps each time."""
    arms, found = session.config.measured_arms, list[MeasuredCapacities]()
    with session.reporter.phase(phase, times * len(arms)) as progress:
        for number in range(times):
            first_step, measured = session.take_steps(steps), MeasuredCapacities({}, {})
            for done, arm in enumerate(arms, start=number * len(arms) + 1):
                before = await session.read_machine()
                measured.rates[arm.name] = await _measure_steps_per_s(session, arm, first_step, steps)
                measured.contention[arm.name] = await session.contention_since(before)
                progress.update(done)
            found.append(measured)
    return found


async def _measure_steps_per_s(session: Session, arm: Arm, first_step: int, steps: int) -> float:
    async with session.active(arm):
        start_ns = session.clock_ns()
        results = await session.run_steps(PlannedBlock(arm, first_step, steps))
        elapsed_ns = session.clock_ns() - start_ns - START_AHEAD_NS
    return 1e9 * sum(each.steps for each in results) / elapsed_ns


def measure_agent_costs(config: Config) -> dict[str, AgentCost]:
    """Return codec -> cost of an RPC, of compiled agents and those of Scapy; {} if it is not measured.

    Without compiled agents those of Scapy alone are measured.
    """
    from hosts.scapy.cost import measure_scapy_cost  # here, since few runs need Scapy: 0.2 s

    costs: dict[str, RpcCost] = {}
    if (agents := compiled_agents()) is not None:
        agents.warm(config.design)
        compiled_cost = agents.measure_rpc_cost(design(config.design), config.window, _COMPILED_STEPS)
        if compiled_cost is None:
            log.warning(
                "agent costs are not measured: compiled agents of design %s got no answer", config.design
            )
            return {}
        costs[COMPILED_CODEC] = compiled_cost
    costs[config.codec] = measure_scapy_cost(config.window, _SCAPY_RPCS)
    return {codec: AgentCost(**cost._asdict()) for codec, cost in costs.items()}
