"""The agents and scripts of a machine: processes in their hosts' namespaces, whose pipes end at the run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from hotline_machines.channel import ChildExit, ChildOutput
from hotline_machines.supervisor.remains import NAMESPACES
from topologies.agent_launcher import AgentLauncher, ForkedProcess
from topologies.script_command import ScriptCommand, signal_group, start_script_process

DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command that the kernel ends when the supervisor has ended, in whatever way."""
_READ_BYTES = 1 << 16
_Child: TypeAlias = "asyncio.subprocess.Process | ForkedProcess"


class Children:
    """Processes by number. They must be started in the main thread, whose end would be their end."""

    def __init__(self, launcher: AgentLauncher, send: Callable[[object], None]) -> None:
        self._launcher, self._send = launcher, send
        self._processes: dict[int, _Child] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, number: int, namespace: str, module: str, arguments: Sequence[str]) -> int:
        """Start an agent in a network namespace; return the process id."""
        process = await self._launcher.launch(module, arguments, NAMESPACES / namespace)
        return self._watch(number, process)

    async def start_script(self, number: int, namespace: str, command: ScriptCommand, folder: Path) -> int:
        """Start a script in a network namespace and in a folder; return the process id."""
        process = await start_script_process(
            command,
            asyncio.subprocess.PIPE,
            enter=("nsenter", f"--net={NAMESPACES / namespace}", "--"),
            last=DIES_WITH_PARENT,  # a change of the user would undo it
            folder=folder,
        )
        return self._watch(number, process)

    def _watch(self, number: int, process: _Child) -> int:
        self._processes[number] = process
        task = asyncio.ensure_future(self._forward(number, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return process.pid

    def write(self, number: int, data: bytes) -> None:
        stdin = self._processes[number].stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(data)

    def close_input(self, number: int) -> None:
        stdin = self._processes[number].stdin
        assert stdin is not None
        stdin.close()

    def kill(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._processes[number].kill()

    def signal_group(self, number: int, signal_number: signal.Signals) -> None:
        if (process := self._processes.get(number)) is not None:
            signal_group(process.pid, signal_number)

    async def end(self) -> None:
        """Kill all processes and what they have started, and wait for their end."""
        for process in self._processes.values():
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, number: int, process: _Child) -> None:
        assert process.stdout is not None
        if process.stderr is None:  # a script, all of whose output goes to its log
            await self._forward_stream(number, process.stdout, is_error=True)
        else:
            await asyncio.gather(
                self._forward_stream(number, process.stdout, is_error=False),
                self._forward_stream(number, process.stderr, is_error=True),
            )
        self._send(ChildExit(number, await process.wait()))

    async def _forward_stream(self, number: int, stream: asyncio.StreamReader, is_error: bool) -> None:
        while data := await stream.read(_READ_BYTES):
            self._send(ChildOutput(number, is_error, data))
