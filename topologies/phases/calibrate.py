"""What each arm carries in a closed loop; the offered loads are fractions of what all of them do.

Beyond what an arm carries its latency would only tell how long it was measured.
"""

from __future__ import annotations

from typing import Literal

from analysis.record import CapacityCheck, capacity_of_baseline, least_capacity
from designs.interface import Arm
from logs.columns import load_name
from topologies.session import START_AHEAD_NS, Session

_PROBE_STEPS = 8
_CHECK = 0.5
"""A check's duration, as a share of the calibration's."""


async def calibrate(session: Session) -> float:
    """Run every arm over the same steps, so that they stay alike; the least steps/s, all workers together.

    The first few steps only tell how many fill the time; they also warm every arm up. As *again* is
    *neither*, too, there are two measurements of it.
    """
    with session.reporter.phase("calibrate"):
        probe = await capacities(session, _PROBE_STEPS)
        found = await capacities(session, _steps(session, capacity_of_baseline(probe), 1.0))
    return take_capacity(session, found)


def take_capacity(session: Session, found: dict[str, float]) -> float:
    """Offer fractions of the least of these (arm -> steps/s), or of the rate that was given; returns it."""
    session.record.capacity = found
    rate = session.config.rate or least_capacity(found)
    session.record.offered_rate = {load_name(load): load * rate for load in session.config.loads}
    return rate


async def check_capacity(session: Session, when: Literal["middle", "end"]) -> None:
    """Record what the arms carry now."""
    with session.reporter.phase(f"check, {when}"):
        steps = _steps(session, capacity_of_baseline(session.record.capacity), _CHECK)
        found = await capacities(session, steps)
    session.record.capacity_checks.append(CapacityCheck(when=when, capacity=found))


def _steps(session: Session, capacity: float, share: float) -> int:
    """Steps of each worker that fill a share of the configured time."""
    return max(_PROBE_STEPS, round(capacity / len(session.workers) * session.config.calibration_s * share))


async def capacities(session: Session, steps: int) -> dict[str, float]:
    """Arm -> steps/s of all workers over so many steps of each in a closed loop."""
    first = session.take_steps(steps)
    return {arm.name: await _rate(session, arm, first, steps) for arm in session.config.measured}


async def _rate(session: Session, arm: Arm, first_step: int, steps: int) -> float:
    """Steps/s of all workers together, in a closed loop."""
    called = session.clock_ns()
    await session.run_steps(arm, first_step, steps)
    return 1e9 * steps * len(session.workers) / (session.clock_ns() - called - START_AHEAD_NS)
