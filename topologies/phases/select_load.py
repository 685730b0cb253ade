"""Choose the hot set from the update logs and install it, while training goes on."""

from __future__ import annotations

import asyncio
from functools import partial

from common.concurrency import in_thread
from controller.hotset import choice as hotset
from controller.hotset.migrate import Progress
from designs.hotset import PROFILE
from logs.merge import last_updates
from topologies.agents import call_all
from topologies.progress import Phase
from topologies.session import Session

_STEPS_AT_A_TIME = 10


async def select(session: Session) -> list[int]:
    """Write `hotset.parquet` from the profile's update logs; the keys, most updated first."""
    with session.reporter.phase("select"):
        logs = last_updates(session.parts)
        hot = await in_thread(hotset.build, logs, session.config.top_k, PROFILE.job)
        hotset.write(hot, session.hot_set)
    keys: list[int] = hot["key"].to_list()
    return keys


async def load(session: Session, keys: list[int]) -> None:
    """Load the set for the profile job under load, then for the offloaded arms, and hint their workers."""
    arms = session.config.offloaded
    with session.reporter.phase("load", (1 + len(arms)) * len(keys)) as phase:
        loaded = asyncio.Event()
        training = asyncio.ensure_future(_train_until(loaded, session))
        try:
            await _load(session, PROFILE.job, keys, partial(_show, phase, 0))
            loaded.set()
            await training
        finally:
            # Behind a load that has not come to its end, workers wait for keys on their way in vain.
            training.cancel()
            await asyncio.gather(training, return_exceptions=True)
        if not session.config.keeps_profile:
            await _load(session, PROFILE.job, [], _silent)
        for number, arm in enumerate(arms, start=1):
            await _load(session, arm.job, keys, partial(_show, phase, number * len(keys)))
        for arm in (PROFILE, *arms):
            command = {"cmd": "hint", "job": arm.job, "file": str(session.hot_set)}
            await call_all(session.workers, command)


async def _load(session: Session, job: int, keys: list[int], progress: Progress) -> None:
    async def load() -> None:
        async with session.controller() as controller:
            await controller.load(job, keys, progress=progress)

    # Before it is: whoever restores the switch meanwhile finishes it.
    session.loaded[job] = keys
    await session.steadily(load)


def _silent(done: int, total: int) -> None:
    """No progress is shown."""


async def _train_until(stop: asyncio.Event, session: Session) -> None:
    while not stop.is_set():
        await session.run_steps(PROFILE, session.take_steps(_STEPS_AT_A_TIME), _STEPS_AT_A_TIME)


def _show(phase: Phase, before: int, done: int, _: int) -> None:
    phase.update(before + done)
