from __future__ import annotations

import math
import random

from experiment.phases.measure import record_capacity
from experiment.session import PlannedBlock
from simulator.session import SimulatedSession

_MIN_STEPS, _MIN_TOTAL_STEPS = 4, 100
"""Minimum steps of each worker, of which the first and the last do not count, and of all workers. The
only noise to average out is that of drawn costs."""


async def calibrate(session: SimulatedSession) -> None:
    config = session.config
    with session.reporter.phase("calibrate"):
        steps = max(_MIN_STEPS, math.ceil(_MIN_TOTAL_STEPS / config.workers))
        first_step, rng = session.take_steps(steps), random.Random(config.seed)
        offsets = tuple(rng.randrange(config.worker.compute_ns + 1) for _ in range(config.workers))
        capacities = {}
        for arm in config.measured_arms:
            async with session.active(arm):
                await session.run_steps(PlannedBlock(arm, first_step, steps, offsets_ns=offsets))
            capacities[arm.name] = session.rate_of(arm)
    record_capacity(session, capacities)
