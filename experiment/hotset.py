"""Prepare the arms of design `hotset`: count updates, and load the keys with the most updates."""

from __future__ import annotations

from typing import Protocol

from controller.hotset import choice
from experiment.config import Config
from experiment.session import PlannedBlock, Session
from foundation.concurrency import in_thread
from foundation.designs.arms import profile_arm
from foundation.logs.merge import last_updates

_STEPS_MARGIN = 1.02  # factor on the number of steps, because mini-batches differ in size


class TraceSize(Protocol):
    @property
    def steps(self) -> int: ...

    @property
    def lanes(self) -> int:
        """Lanes that all workers push in one pass."""


async def prepare(session: Session, trace: TraceSize) -> None:
    if session.hot_set_file.exists():
        keys = choice.read(session.hot_set_file)["key"].to_list()
    else:
        await profile(session, trace)
        keys = await select(session)
    await session.load(keys)


async def profile(session: Session, trace: TraceSize) -> None:
    """Run the profile job for the configured number of lanes, at most one pass; write the update logs."""
    workers, arm = session.config.workers, profile_arm(session.config.design)
    steps = steps_to_profile(session.config, trace)
    steps_by_worker: dict[str, int] = {}
    with session.reporter.phase("profile", steps * workers) as phase:

        def on_progress(worker: str, steps_done: int) -> None:
            steps_by_worker[worker] = steps_done
            phase.update(sum(steps_by_worker.values()))

        await session.run_steps(PlannedBlock(arm, session.take_steps(steps), steps), on_progress)
        await session.write_updates()


def steps_to_profile(config: Config, trace: TraceSize) -> int:
    passes = _STEPS_MARGIN * config.lanes_to_profile / max(trace.lanes, 1)
    return min(int(passes * trace.steps) + 1, trace.steps)


async def select(session: Session) -> list[int]:
    with session.reporter.phase("select"):
        logs = last_updates(session.parts)
        hot_set = await in_thread(
            choice.build, logs, session.config.top_k, profile_arm(session.config.design).job
        )
        choice.write(hot_set, session.hot_set_file)
    session.reporter.message(
        f"the hot set: {hot_set.height:,} keys, {hot_set['share'].sum():.0%} of the updates"
    )
    keys: list[int] = hot_set["key"].to_list()
    return keys
