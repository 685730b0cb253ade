from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from experiment.errors import AgentFailed
from experiment.processes import RunProcesses
from experiment.session import OnProgress
from foundation.limits import WaitLimit, wait_within
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.lines import Message
from hotline_scripts.run.arm import ScriptArm
from hotline_scripts.run.process import Script, first_failure

COMMAND_TIMEOUT_S = 30.0
"""Limit of a command that involves only files and hints, in s for which no process of the run works."""


class ScriptWorker:
    def __init__(self, number: int, arms: Sequence[ScriptArm], processes: RunProcesses) -> None:
        self.name = f"worker-{number}"
        self._arms, self._processes = arms, processes
        self._scripts: dict[int, Script] = {arm.arm.job: arm.scripts[number - 1] for arm in arms}

    @property
    def alive(self) -> bool:
        return not any(script.has_failed for script in self._scripts.values())

    async def call(
        self, command: Message, timeout_s: float = COMMAND_TIMEOUT_S, on_progress: OnProgress | None = None
    ) -> Message:
        """Send `hint` for one job, or `flush` for all jobs, which writes logs and returns `dropped_rows`."""
        if command["cmd"] == "hint":
            worker = self._scripts[command["job"]].joined_worker
            await command_workers(
                [worker] if worker else [], "hint", self._limit(timeout_s, "hint"), file=command["file"]
            )
            return {}
        if command["cmd"] != "flush":
            raise ValueError(f"expected the command hint or flush, got {command['cmd']!r}")
        joined_workers = self._joined_workers
        answers = await command_workers(joined_workers, "flush", self._limit(timeout_s, "flush"))
        final_reports = [worker.final_report for worker in joined_workers if worker.has_left.is_set()]
        return {"dropped_rows": sum(each.get("dropped_rows", 0) for each in (*answers, *final_reports))}

    async def send(self, command: Message) -> None:
        """Do nothing: scripts keep no replay logs, and without them the switch is not restarted."""

    async def settle(self) -> None:
        # An error may have kept the block from being ended; until then, the scripts go on pushing.
        await command_workers(self._joined_workers, "end_block", self._limit(COMMAND_TIMEOUT_S, "end_block"))

    def _limit(self, timeout_s: float, command: str) -> WaitLimit:
        return self._processes.limit(timeout_s, f"answer of {self.name} to {command!r}")

    @property
    def _joined_workers(self) -> list[JoinedWorker]:
        workers = (script.joined_worker for script in self._scripts.values())
        return [worker for worker in workers if worker is not None]

    async def wait_until_failed(self) -> None:
        failure_tasks = [
            asyncio.ensure_future(script.wait_until_failed()) for script in self._scripts.values()
        ]
        try:
            done, _ = await asyncio.wait(failure_tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for failure_task in failure_tasks:
                failure_task.cancel()
            await asyncio.gather(*failure_tasks, return_exceptions=True)
        failed_arms = [
            arm for arm, failure_task in zip(self._arms, failure_tasks, strict=True) if failure_task in done
        ]
        raise first_failure(failed_arms[0].scripts)


async def command_workers(
    joined_workers: Iterable[JoinedWorker],
    command: str,
    limit: WaitLimit,
    values_by_rank: Mapping[int, Message] = {},
    **values: object,
) -> list[Message]:
    """Send a command with `values` and those of a worker's rank; return the answers of workers that stay."""
    joined_workers = list(joined_workers)
    answer_futures = [
        worker.send_command(command, **values, **values_by_rank.get(worker.rank, {}))
        for worker in joined_workers
    ]
    if not answer_futures:
        return []
    if not await wait_within(limit, *answer_futures):
        late_workers = [
            str(worker.rank + 1)
            for worker, future in zip(joined_workers, answer_futures, strict=True)
            if not future.done()
        ]
        raise AgentFailed(
            f"script, worker {', '.join(late_workers)}: no answer to {command!r} {limit.describe()}"
        )
    answers = [answer for future in answer_futures if (answer := future.result()) is not None]
    for answer in answers:
        if "error" in answer:
            raise AgentFailed(f"script: {answer['error']}")
    return answers
