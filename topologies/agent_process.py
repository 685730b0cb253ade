"""An agent's process: its pipes, and the answers to the commands that it is sent."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from softswitch.progress import Activity

Message = dict[str, Any]  # JSON
MAX_LINE_BYTES = 1 << 20


class InputPipe(Protocol):
    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


class ChildProcess(Protocol):
    """The part of `asyncio.subprocess.Process` that runs use; the process may be on another machine."""

    @property
    def stdin(self) -> InputPipe | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


Launch: TypeAlias = Callable[[Sequence[str], Path], Awaitable[ChildProcess]]
"""Starts a command whose standard error is appended to a file."""
ReadProcess: TypeAlias = Callable[[int], Awaitable[Activity]]
"""Returns what the process with an id does, on the machine where it is."""


async def launch_here(command: Sequence[str], log_file: Path) -> ChildProcess:
    with log_file.open("ab") as stderr:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=MAX_LINE_BYTES,
            start_new_session=True,
        )


class _PendingAnswer(NamedTuple):
    answer: asyncio.Future[Message | None]
    on_progress: Callable[[int], None]


class AgentProcess:
    """An agent's process, which answers commands in their order. Only this object reads its output."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self.end_event = asyncio.Event()
        # Whether another process is started after the end of this one.
        self.has_successor: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.error: str | None = None  # last line of the process that was not the answer to a command
        self._pending: deque[_PendingAnswer] = deque()
        self.first_answer = self.expect_answer()
        self._read_task = asyncio.ensure_future(self._read())

    def expect_answer(
        self, on_progress: Callable[[int], None] = lambda steps: None
    ) -> asyncio.Future[Message | None]:
        """Return a future of the answer to the next command. A caller may stop awaiting it."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        if self.end_event.is_set():
            answer.set_result(None)
        else:
            self._pending.append(_PendingAnswer(answer, on_progress))
        return answer

    def write(self, command: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    @property
    def pending_answers(self) -> list[asyncio.Future[Message | None]]:
        return [pending.answer for pending in self._pending]

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended the process."""
        return (self.process.returncode or 0) < 0

    def resolve_successor(self, has_successor: bool) -> None:
        if not self.has_successor.done():
            self.has_successor.set_result(has_successor)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # a line that is too long, or cut off by the end
            while line := await self.process.stdout.readline():
                self._handle_answer(json.loads(line))
        # A process that is still alive has written a line that is not JSON, or is too long.
        if self.process.returncode is None and not self.process.stdout.at_eof():
            self.process.kill()
        await self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(OSError):  # the process did not read everything
            await self.process.stdin.wait_closed()
        self.end_event.set()
        for pending in self._pending:
            pending.answer.set_result(None)
        self._pending.clear()

    def _handle_answer(self, answer: Message) -> None:
        if not self._pending:
            self.error = str(answer.get("error", answer))
        elif "progress" in answer:
            self._pending[0].on_progress(answer["progress"])
        else:
            self._pending.popleft().answer.set_result(answer)
