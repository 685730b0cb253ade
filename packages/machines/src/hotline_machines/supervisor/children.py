"""The agents of a machine: processes in the namespaces of their hosts, whose pipes end at the run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from foundation.checkout import environment_with_checkout
from hotline_machines.channel import ChildExit, ChildOutput

DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command that the kernel ends when the supervisor has ended, in whatever way."""
_READ_BYTES = 1 << 16


class Children:
    """Processes by number. They must be started in the main thread, whose end would be their end."""

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, number: int, namespace: str, arguments: Sequence[str]) -> int:
        """Start Python in a network namespace; return the process id."""
        process = await asyncio.create_subprocess_exec(
            *DIES_WITH_PARENT, "nsenter", f"--net=/run/netns/{namespace}", "--", sys.executable, *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment_with_checkout(),
            start_new_session=True,
        )  # fmt: skip
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

    async def end(self) -> None:
        """Kill all processes and what they have started, and wait for their end."""
        for process in self._processes.values():
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, number: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None and process.stderr is not None
        await asyncio.gather(
            self._forward_stream(number, process.stdout, is_error=False),
            self._forward_stream(number, process.stderr, is_error=True),
        )
        self._send(ChildExit(number, await process.wait()))

    async def _forward_stream(self, number: int, stream: asyncio.StreamReader, is_error: bool) -> None:
        while data := await stream.read(_READ_BYTES):
            self._send(ChildOutput(number, is_error, data))
