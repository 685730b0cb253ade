"""Load the hot set into the switch, while training goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from controller.hotset.migrate import Progress
from designs.hotset import PROFILE
from experiment.progress import Phase
from experiment.session import Session

LoadJob = Callable[[int, Sequence[int], Progress], Awaitable[None]]
"""(job, keys, progress): have these keys, and no others, in the switch for a job."""
_STEPS_AT_A_TIME = 10


async def load(session: Session, keys: Sequence[int], load_job: LoadJob) -> None:
    """Load the set for the profile job under load, then for the offloaded arms."""
    arms = session.config.offloaded
    with session.reporter.phase("load", (1 + len(arms)) * len(keys)) as phase:
        loaded = asyncio.Event()
        training = asyncio.ensure_future(_train_until(loaded, session))
        try:
            await load_job(PROFILE.job, keys, partial(_show, phase, 0))
            loaded.set()
            await training
        finally:
            # Behind a load that has not come to its end, workers wait for keys on their way in vain.
            training.cancel()
            await asyncio.gather(training, return_exceptions=True)
        if not session.config.keeps_profile:
            await load_job(PROFILE.job, [], _silent)
        for number, arm in enumerate(arms, start=1):
            await load_job(arm.job, keys, partial(_show, phase, number * len(keys)))


def _silent(done: int, total: int) -> None:
    """No progress is shown."""


async def _train_until(stop: asyncio.Event, session: Session) -> None:
    while not stop.is_set():
        await session.run_steps(PROFILE, session.take_steps(_STEPS_AT_A_TIME), _STEPS_AT_A_TIME)


def _show(phase: Phase, before: int, done: int, _: int) -> None:
    phase.update(before + done)
