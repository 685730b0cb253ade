"""Prepare the arms of design `hotset`: count updates, and load the keys that the run's rule chooses."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from controller.hotset import choice
from controller.hotset.rules import TOP_K
from experiment.session import PlannedBlock, Session
from foundation.concurrency import in_thread
from foundation.designs.arms import profile_arm
from foundation.logs.merge import last_updates
from foundation.protocol.rows import RowRanges


class _RowSpace(Protocol):
    @property
    def key_ranges(self) -> RowRanges:
        """The dims of the rows by ranges of keys."""


class ProfiledTrace(Protocol):
    @property
    def space(self) -> _RowSpace: ...

    @property
    def profile_steps(self) -> int:
        """Steps of each worker that the hot set is chosen from."""


async def prepare(session: Session, trace: ProfiledTrace) -> None:
    if session.hot_set_file.exists():
        hot_set = choice.read(session.hot_set_file)
        choice.check_dims(hot_set, trace.space.key_ranges, str(session.hot_set_file), "the run")
        keys = hot_set["key"].to_list()
        session.take_steps(trace.profile_steps)
    else:
        await profile(session, trace)
        keys = await select(session)
    await session.load(keys)


async def profile(session: Session, trace: ProfiledTrace) -> None:
    """Run the profile job for the steps that the hot set is chosen from; write the update logs."""
    workers, arm = session.config.workers, profile_arm(session.config.design)
    # Of a trace with a single step, which is profiled and measured, `profile_steps` is 0.
    steps = max(trace.profile_steps, 1)
    steps_by_worker: dict[str, int] = {}
    with session.reporter.phase("profile", steps * workers) as phase:

        def on_progress(worker: str, steps_done: int) -> None:
            steps_by_worker[worker] = steps_done
            phase.update(sum(steps_by_worker.values()))

        await session.run_steps(PlannedBlock(arm, session.take_steps(steps), steps), on_progress)
        await session.write_updates()


async def select(session: Session) -> list[int]:
    config = session.config
    with session.reporter.phase("select"):
        logs, job = last_updates(session.parts), profile_arm(config.design).job
        build = partial(choice.build, logs, config.top_k, job, rule=config.rule, ranges=config.row_ranges)
        hot_set = await in_thread(build)
        choice.write(hot_set, session.hot_set_file)
    chosen_by = "" if config.rule == TOP_K else f", chosen by rule {config.rule}"
    session.reporter.message(
        f"the hot set{chosen_by}: {hot_set.height:,} keys, {hot_set['share'].sum():.0%} of the updates that "
        "they were chosen from"
    )
    keys: list[int] = hot_set["key"].to_list()
    return keys
