"""A worker that is several processes: a script for each arm, commanded like an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from experiment.errors import AgentFailed
from experiment.session import OnProgress
from topologies.agents import Answer
from topologies.joined_worker import JoinedWorker, Message
from topologies.scripts.arm import ScriptArm
from topologies.scripts.process import Script, first_failure

ORDER_S = 30.0
"""For an order that does nothing but files and hints."""


class ScriptWorker:
    """Worker `number` of all arms."""

    def __init__(self, number: int, arms: Sequence[ScriptArm]) -> None:
        self.name = f"worker-{number}"
        self._arms = arms
        self._scripts: dict[int, Script] = {each.arm.job: each.scripts[number - 1] for each in arms}

    @property
    def alive(self) -> bool:
        """Whether none has failed. One that has ended well has written all that it had."""
        return not any(script.has_failed for script in self._scripts.values())

    async def call(
        self, command: Answer, patience: float = ORDER_S, on_progress: OnProgress | None = None
    ) -> Answer:
        """`hint` for a job, or `flush` for all: what is left of logs, and how many rows were dropped."""
        if command["cmd"] == "hint":
            joined = self._scripts[command["job"]].joined
            await answers([joined] if joined else [], "hint", patience, file=command["file"])
            return {}
        if command["cmd"] != "flush":
            raise ValueError(f"scripts know no {command['cmd']}")
        joined_workers = [script.joined for script in self._scripts.values() if script.joined is not None]
        told = await answers(joined_workers, "flush", patience)
        last = [joined.last for joined in joined_workers if joined.has_left.is_set()]
        return {"dropped_rows": sum(each.get("dropped_rows", 0) for each in (*told, *last))}

    async def tell(self, command: Answer) -> None:
        """Nothing: scripts keep no replay logs, and the switch does not come back without them."""

    async def settle(self) -> None:
        """Let no call through any more; return when none is under way."""
        await answers([script.joined for script in self._scripts.values() if script.joined], "shut", ORDER_S)

    async def until_it_dies(self) -> None:
        """Wait for a failure; raise that which was first in its arm."""
        failing = [asyncio.ensure_future(script.until_it_fails()) for script in self._scripts.values()]
        try:
            done, _ = await asyncio.wait(failing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in failing:
                each.cancel()
            await asyncio.gather(*failing, return_exceptions=True)
        failed = [arm for arm, watch in zip(self._arms, failing, strict=True) if watch in done]
        raise first_failure(failed[0].scripts)


async def answers(
    joined_workers: Iterable[JoinedWorker], what: str, patience: float, **values: object
) -> list[Message]:
    """Give all the same order; the answers of those that have not left. Raises `AgentFailed`."""
    joined_workers = list(joined_workers)
    asked = [joined.order(what, **values) for joined in joined_workers]
    if not asked:
        return []
    await asyncio.wait(asked, timeout=patience)
    late = [joined.rank + 1 for joined, each in zip(joined_workers, asked, strict=True) if not each.done()]
    if late:
        names = ", ".join(map(str, late))
        raise AgentFailed(f"script, worker {names}: no answer to {what!r} within {patience:.0f} s")
    found = [answer for each in asked if (answer := each.result()) is not None]
    for answer in found:
        if "error" in answer:
            raise AgentFailed(f"script: {answer['error']}")
    return found
