"""The session of a run whose workers are scripts: their calls proceed in a block, and wait between blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from experiment.defaults import MAX_STEP_S
from experiment.errors import AgentFailed, RunFailed
from experiment.phases.workload import steps_to_profile
from experiment.session import START_AHEAD_NS, BlockResult, OnProgress, PlannedBlock
from foundation.designs.interface import Arm
from foundation.limits import WaitLimit, wait_within
from hotline_scripts.run.arm import ScriptArm
from hotline_scripts.run.worker import COMMAND_TIMEOUT_S, command_workers
from topologies.session import RealSession

_EXTRA_TIMEOUT_S = 120.0
"""Limit of a block beyond the time for its steps, in s: a table may have to be initialised first."""
MAX_PROFILED_STEPS = 10_000
"""Maximum number of steps per worker from which the hot set is chosen."""


class ObservedWorkload(NamedTuple):
    profile_steps: int
    """Steps of each worker that the hot set is chosen from."""
    lanes_per_step: float  # of one worker


@dataclass(slots=True, kw_only=True)
class ScriptSession(RealSession):
    """A session whose steps are scripts' pushes. A worker may exceed its share, if others need its steps."""

    arms: Sequence[ScriptArm]

    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        """Let the arm's calls through until enough steps are done or its scripts have ended."""
        arm = self._script_arm(planned.arm)
        total_steps = planned.steps * arm.size
        for worker in arm.joined_workers:
            worker.steps = 0
        clocks_ns = await self.network.worker_clocks_ns()
        start_ns = self.clock_ns() + START_AHEAD_NS
        starts = {rank: {"start_ns": start_ns + clock_ns} for rank, clock_ns in enumerate(clocks_ns)}
        block = {
            "round": planned.round,
            "load": planned.load,
            "discard_ns": self.config.discard_ms * 1_000_000,
            "discard_steps": planned.max_discarded_steps,
        }
        connected_workers = [worker for worker in arm.joined_workers if not worker.has_left.is_set()]
        await command_workers(connected_workers, "begin_block", self._command_limit(), starts, **block)
        await self._wait_until_done(arm, total_steps, on_progress)
        answers = await command_workers(connected_workers, "end_block", self._command_limit())
        # A worker that left during the block reported its result as it left, and answers no command.
        final_blocks = [worker.final_report.pop("last_block", None) for worker in connected_workers]
        return [BlockResult.model_validate(result) for result in (*answers, *final_blocks) if result]

    def _command_limit(self) -> WaitLimit:
        return self.liveness.processes.limit(COMMAND_TIMEOUT_S, "answers of scripts")

    async def _wait_until_done(
        self, arm: ScriptArm, total_steps: int, on_progress: OnProgress | None
    ) -> None:
        def show_steps() -> None:
            if on_progress is not None:
                on_progress(arm.arm.name, min(arm.steps, total_steps))

        timeout_s = _EXTRA_TIMEOUT_S + total_steps / arm.size * MAX_STEP_S[self.config.codec]
        limit = self.liveness.processes.limit(timeout_s, f"steps of arm {arm.arm.name}")
        steps_done = asyncio.ensure_future(arm.wait_until_done(total_steps, show_steps))
        try:
            if not await wait_within(limit, steps_done):
                raise AgentFailed(
                    f"script, arm {arm.arm.name}: {arm.steps} of {total_steps} steps {limit.describe()}; "
                    "a step is a push: do all workers push, and call barrier equally often?"
                )
            steps_done.result()
        finally:
            steps_done.cancel()
            await asyncio.gather(steps_done, return_exceptions=True)

    def has_ended(self, arm: Arm) -> bool:
        return self._script_arm(arm).has_ended

    async def observe(self, arm: Arm, steps: int) -> ObservedWorkload:
        """Let an arm's scripts take steps, and extrapolate to a profile; raise `RunFailed` if none push."""
        results = await self.run_steps(PlannedBlock(arm, self.take_steps(steps), steps))
        if not any(each.updates_sent for each in results):
            raise RunFailed(
                f"script: it has ended in arm {arm.name} without a push, so there is nothing to compare; "
                "a step is a push, with the pulls before it"
            )
        steps_done = sum(each.steps for each in results)
        lanes_per_step = sum(each.updates_sent for each in results) / max(steps_done, 1)
        lanes = round(lanes_per_step * MAX_PROFILED_STEPS * self.config.workers)
        return ObservedWorkload(steps_to_profile(self.config, MAX_PROFILED_STEPS, lanes), lanes_per_step)

    @property
    def arms_with_workers(self) -> Sequence[Arm]:
        return [each.arm for each in self.arms]

    def pids(self) -> dict[str, int]:
        pids = RealSession.pids(self)  # super() fails in a dataclass with slots
        for arm in self.arms:
            for script in arm.scripts:
                if not script.worker_has_left:
                    pids[f"worker-{script.worker} of {arm.arm.name}"] = script.pid
        return pids

    def _script_arm(self, arm: Arm) -> ScriptArm:
        return next(each for each in self.arms if each.arm == arm)
