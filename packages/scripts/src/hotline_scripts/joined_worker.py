from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hotline_scripts.lines import Message, send_line
from topologies.testbed import LineWriter


@dataclass(eq=False, slots=True)
class JoinedWorker:
    """A worker of a session. Only a run sends it commands, which it executes in their order."""

    rank: int
    writer: LineWriter
    life: int = 0
    """Number of workers that have had the rank before it in the session."""
    reports: int = 0  # number of reports received
    steps: int = 0  # number of steps done, as last reported
    final_report: Message = field(default_factory=dict)
    has_left: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False
    answered: asyncio.Future[None] | None = None
    """Done when a server answers the worker again; None before it has reported that servers are silent."""
    on_change: Callable[[], None] = lambda: None
    _commands_sent: int = 0
    _pending: dict[int, asyncio.Future[Message | None]] = field(default_factory=dict)

    def send_command(self, command: str, **values: object) -> asyncio.Future[Message | None]:
        """Send a command; return a future of its answer, or of None if the worker leaves first."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        if self.has_left.is_set():
            answer.set_result(None)
            return answer
        self._commands_sent += 1
        self._pending[self._commands_sent] = answer
        send_line(self.writer, {"number": self._commands_sent, "command": command, **values})
        return answer

    def complete_command(self, number: int, answer: Message) -> None:
        future = self._pending.pop(number)
        if not future.done():
            future.set_result(answer)

    def report_steps(self, steps: int) -> None:
        self.steps = steps
        self.on_change()

    def mark_left(self, is_in_order: bool = True) -> None:
        """Mark the worker as gone, and answer its pending commands with None."""
        self.is_lost = not is_in_order
        self.has_left.set()
        for future in self._pending.values():
            if not future.done():
                future.set_result(None)
        self._pending.clear()
        self.on_change()
