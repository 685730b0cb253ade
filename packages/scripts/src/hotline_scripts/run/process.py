"""The processes of a script, one per worker and arm, and their failures."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from experiment.errors import AgentFailed
from hotline_scripts.joined_worker import JoinedWorker
from softswitch.progress import ENDED, Activity
from topologies.script_command import ScriptCommand
from topologies.testbed import AgentHost, ScriptProcess

_MAX_OUTPUT_LINES = 12  # of a failed script's output in the error
_GRACE_S = 0.5  # time from a failure until it is reported, in which other scripts may fail because of it
_TERM_TIMEOUT_S, _KILL_TIMEOUT_S = 1.0, 5.0


class Script:
    def __init__(self, worker: int, arm: str, log: Path) -> None:
        self.worker, self.arm, self.log = worker, arm, log
        self.joined_worker: JoinedWorker | None = None
        self.end_s: float | None = None
        """Time at which the process ended or its worker left, if that was first, on the loop's clock in s."""
        self._process: ScriptProcess
        self._exit_task: asyncio.Task[int] | None = None

    async def start(self, host: AgentHost, command: ScriptCommand) -> None:
        self._process = await host.start_script(command, self.log)
        self._exit_task = asyncio.ensure_future(self._process.wait())

    @property
    def rank(self) -> int:
        return self.worker - 1

    @property
    def pid(self) -> int:
        return self._process.pid

    async def activity(self) -> Activity:
        return ENDED if self._process.returncode is not None else await self._process.activity()

    @property
    def has_failed(self) -> bool:
        exit_status = None if self._exit_task is None else self._process.returncode
        return exit_status is not None and (exit_status != 0 or self.joined_worker is None)

    @property
    def worker_has_left(self) -> bool:
        return self.joined_worker is not None and self.joined_worker.has_left.is_set()

    def record_end(self) -> None:
        self.end_s = self.end_s or asyncio.get_running_loop().time()

    async def wait_until_failed(self) -> None:
        """Return `_GRACE_S` after the script has failed; never return if it ends without a failure."""
        assert self._exit_task is not None, "it has not been started"
        await asyncio.shield(self._exit_task)
        self.record_end()
        if not self.has_failed:
            await asyncio.Event().wait()
        await asyncio.sleep(_GRACE_S)

    def failure(self) -> AgentFailed:
        exit_status = None if self._exit_task is None else self._process.returncode
        if exit_status is None:
            description = "goes on after an error has closed the connection of its hotline.Worker"
        elif exit_status:
            description = f"ended with status {exit_status}"
        elif self.joined_worker is None:
            description = (
                "ended without making a hotline.Worker: make a Worker in the script, and push with it"
            )
        else:
            description = (
                "ended with status 0 before its hotline.Worker had left, for example by os._exit: "
                "its last pushes may be lost; call kv.close() first"
            )
        lines = self.log.read_text(errors="replace").rstrip().splitlines() if self.log.exists() else []
        output = "".join(f"\n  {line}" for line in lines[-_MAX_OUTPUT_LINES:])
        script_name = f"script, worker {self.worker} (rank {self.rank}) in arm {self.arm}"
        return AgentFailed(f"{script_name}, {description} ({self.log}){output}")

    async def end(self) -> None:
        if self._exit_task is None:
            return
        for signal_number, timeout_s in (
            (signal.SIGTERM, _TERM_TIMEOUT_S),
            (signal.SIGKILL, _KILL_TIMEOUT_S),
        ):
            if self._exit_task.done():
                break
            self._process.signal_group(signal_number)
            await asyncio.wait([self._exit_task], timeout=timeout_s)
        self._process.signal_group(signal.SIGKILL)  # child processes that the script has left running


def first_failure(scripts: Sequence[Script]) -> AgentFailed:
    """Return the failure of the script that ended first: the other failures follow from it."""
    failed_scripts = [script for script in scripts if script.has_failed]
    return min(failed_scripts, key=lambda script: script.end_s or 0.0).failure()
