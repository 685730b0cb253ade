"""What each arm carries in a closed loop; the offered loads are fractions of what *neither* does."""

from __future__ import annotations

import time

from logs.columns import load_name
from protocol.arms import MEASURED, NEITHER, Arm
from topologies.session import START_AHEAD_NS, Session

_PROBE_STEPS = 8


async def calibrate(session: Session) -> float:
    """Run every arm over the same steps, so that they stay alike; steps/s of *neither*, all workers together.

    The first few steps only tell how many fill the time; they also warm every arm up.
    """
    with session.reporter.phase("calibrate", 2 * len(MEASURED)) as phase:
        steps, done = _PROBE_STEPS, 0
        capacity: dict[str, float] = {}
        for _ in range(2):
            first = session.take_steps(steps)
            for arm in MEASURED:
                capacity[arm.name] = await _rate(session, arm, first, steps)
                done += 1
                phase.update(done)
            rate_each = capacity[NEITHER.name] / len(session.workers)
            steps = max(_PROBE_STEPS, round(rate_each * session.config.calibration_s))
    session.record.capacity = capacity
    session.record.offered_rate = {
        load_name(load): load * capacity[NEITHER.name] for load in session.config.loads
    }
    return capacity[NEITHER.name]


async def _rate(session: Session, arm: Arm, first_step: int, steps: int) -> float:
    """Steps/s of all workers together, in a closed loop."""
    called = time.monotonic_ns()
    await session.run_steps(arm, first_step, steps)
    return 1e9 * steps * len(session.workers) / (time.monotonic_ns() - called - START_AHEAD_NS)
