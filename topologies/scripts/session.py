"""A run whose workers are scripts: blocks let their calls through, and shut them out again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from experiment.errors import AgentFailed
from experiment.session import START_AHEAD_NS, OnProgress, Planned, Ran
from experiment.sizes import STEP_PATIENCE_S
from foundation.designs.interface import Arm
from topologies.scripts.arm import ScriptArm
from topologies.scripts.worker import ORDER_S, answers
from topologies.session import RealSession

_PATIENCE_S = 120.0
"""For a block, beside what its steps may take: a table may have to be set first."""
_MOST_STEPS = 10_000
"""Of a worker, to choose the hot set from."""


class Course(NamedTuple):
    """What scripts have been seen to do, as far as a hot set is chosen from it."""

    steps: int
    lanes: int


@dataclass(slots=True, kw_only=True)
class ScriptSession(RealSession):
    """Steps are the scripts' pushes. A block has as many as are planned of all workers together.

    No worker is held back for having done its part: others may wait for it in a barrier.
    """

    arms: Sequence[ScriptArm]

    async def run_steps(self, planned: Planned, on_progress: OnProgress | None = None) -> list[Ran]:
        """Let the arm's calls through, until enough steps are done or its scripts have ended."""
        arm = self._of(planned.arm)
        wanted = planned.steps * arm.size
        for joined in arm.joined_workers:
            joined.steps = 0
        opening = {
            "start_ns": self.clock_ns() + START_AHEAD_NS,
            "round": planned.round,
            "load": planned.load,
            "discard_ns": self.config.discard_ms * 1_000_000,
            "discard_steps": planned.discarded,
        }
        there = [joined for joined in arm.joined_workers if not joined.has_left.is_set()]
        await answers(there, "open", ORDER_S, **opening)
        await self._until_done(arm, wanted, on_progress)
        told = await answers(there, "shut", ORDER_S)
        left = [last for joined in there if (last := joined.last.pop("ran", None)) is not None]
        return [Ran.model_validate(each) for each in (*told, *left) if each]

    async def _until_done(self, arm: ScriptArm, wanted: int, on_progress: OnProgress | None) -> None:
        def told() -> None:
            if on_progress is not None:
                on_progress(arm.arm.name, min(arm.steps, wanted))

        patience = _PATIENCE_S + wanted / arm.size * STEP_PATIENCE_S[self.config.codec]
        try:
            await asyncio.wait_for(arm.until_done(wanted, told), patience)
        except asyncio.TimeoutError:
            raise AgentFailed(
                f"script, arm {arm.arm.name}: {arm.steps} of {wanted} steps within {patience:.0f} s; "
                "a step is a push: do all workers push, and call barrier alike?"
            ) from None

    def has_ended(self, arm: Arm) -> bool:
        """Whether all of its scripts have left."""
        return self._of(arm).has_ended

    async def course(self, arm: Arm, steps: int) -> Course:
        """Let an arm's scripts do so many steps each, and see what they push in one."""
        ran = await self.run_steps(Planned(arm, self.take_steps(steps), steps))
        lanes = sum(each.updates_sent for each in ran) / max(sum(each.steps for each in ran), 1)
        return Course(_MOST_STEPS, round(lanes * _MOST_STEPS * self.config.workers))

    def pids(self) -> dict[str, int]:
        """Of all processes that go on."""
        found = RealSession.pids(self)  # with slots a dataclass is another class, unknown to super
        for arm in self.arms:
            for script in arm.scripts:
                if not script.has_ended:
                    found[f"worker-{script.worker} of {arm.arm.name}"] = script.pid
        return found

    def _of(self, arm: Arm) -> ScriptArm:
        return next(each for each in self.arms if each.arm == arm)
