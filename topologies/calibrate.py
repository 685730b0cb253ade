"""What each arm carries in a closed loop, as long as is configured."""

from __future__ import annotations

from typing import Literal

from analysis.record import CapacityCheck, capacity_of_baseline
from experiment.phases.calibrate import take_capacity
from experiment.session import START_AHEAD_NS, Planned, Session
from foundation.designs.interface import Arm

WARM_UP_STEPS = 8
_CHECK = 0.5
"""A check's duration, as a share of the calibration's."""


async def probe(session: Session) -> dict[str, float]:
    """A few steps, which warm every arm up, and tell how many fill the time."""
    return await capacities(session, "probe", WARM_UP_STEPS)


async def calibrate(session: Session, probed: dict[str, float]) -> None:
    """Run every arm over the same steps, so that they stay alike, and offer fractions of what they carry.

    As *again* is *neither*, too, there are two measurements of it.
    """
    steps = _steps(session, capacity_of_baseline(probed), 1.0)
    take_capacity(session, await capacities(session, "calibrate", steps))


async def check_capacity(session: Session, when: Literal["middle", "end"]) -> None:
    """Record what the arms carry now."""
    steps = _steps(session, capacity_of_baseline(session.record.capacity), _CHECK)
    found = await capacities(session, f"check, {when}", steps)
    session.record.capacity_checks.append(CapacityCheck(when=when, capacity=found))


def _steps(session: Session, capacity: float, share: float) -> int:
    """Steps of each worker that fill a share of the configured time."""
    return max(WARM_UP_STEPS, round(capacity / session.config.workers * session.config.calibration_s * share))


async def capacities(session: Session, phase: str, steps: int) -> dict[str, float]:
    """Arm -> steps/s of all workers over so many steps of each in a closed loop; shown as a phase."""
    first, arms = session.take_steps(steps), session.config.measured
    found: dict[str, float] = {}
    with session.reporter.phase(phase, len(arms)) as shown:
        for arm in arms:
            found[arm.name] = await _rate(session, arm, first, steps)
            shown.update(len(found))
    return found


async def _rate(session: Session, arm: Arm, first_step: int, steps: int) -> float:
    """Steps/s of all workers together, in a closed loop."""
    called = session.clock_ns()
    ran = await session.run_steps(Planned(arm, first_step, steps))
    return 1e9 * sum(each.steps for each in ran) / (session.clock_ns() - called - START_AHEAD_NS)
