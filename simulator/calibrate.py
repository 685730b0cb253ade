"""What each arm carries in a closed loop, which virtual time tells at once."""

from __future__ import annotations

import math
import random

from experiment.phases.measure import take_capacity
from experiment.session import Planned
from simulator.session import SimulatedSession

_LEAST_TO_CALIBRATE, _ALL_TO_CALIBRATE = 4, 100
"""Steps of each worker, of which the first and the last do not count, and of all: no noise has to be waited
for but what costs are drawn from."""


async def calibrate(session: SimulatedSession) -> None:
    """Run every arm over the same steps, and offer fractions of what they carry.

    Workers that compute begin at unlike times of that, as they would be after a while.
    """
    config = session.config
    with session.reporter.phase("calibrate"):
        steps = max(_LEAST_TO_CALIBRATE, math.ceil(_ALL_TO_CALIBRATE / config.workers))
        first, chance = session.take_steps(steps), random.Random(config.seed)
        offsets = tuple(chance.randrange(config.worker.compute_ns + 1) for _ in range(config.workers))
        found = {}
        for arm in config.measured:
            await session.run_steps(Planned(arm, first, steps, offsets_ns=offsets))
            found[arm.name] = session.rate_of(arm)
    take_capacity(session, found)
