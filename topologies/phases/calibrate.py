"""What each arm carries in a closed loop; the offered loads are fractions of what *neither* does."""

from __future__ import annotations

import time

from analysis.summary import load_name
from logs.columns import ARMS
from topologies.session import START_AHEAD_NS, Session

_PROBE_STEPS = 8


async def calibrate(session: Session) -> float:
    """Run every arm over the same steps, so that they stay alike; steps/s of *neither*, all workers together.

    The first few steps only tell how many fill the time; they also warm every arm up.
    """
    with session.reporter.phase("calibrate", 2 * len(ARMS)) as phase:
        steps, done = _PROBE_STEPS, 0
        capacity: dict[str, float] = {}
        for _ in range(2):
            first = session.take_steps(steps)
            for arm in ARMS:
                capacity[arm] = await _rate(session, arm, first, steps)
                done += 1
                phase.update(done)
            steps = max(
                _PROBE_STEPS, round(capacity["neither"] * session.config.calibration_s / len(session.workers))
            )
    session.record.capacity = capacity
    session.record.offered_rate = {
        load_name(load): load * capacity["neither"] for load in session.config.loads
    }
    return capacity["neither"]


async def _rate(session: Session, arm: str, first_step: int, steps: int) -> float:
    """Steps/s of all workers together, in a closed loop."""
    called = time.monotonic_ns()
    await session.run_steps(arm, first_step, steps)
    return 1e9 * steps * len(session.workers) / (time.monotonic_ns() - called - START_AHEAD_NS)
