"""A worker that has joined a rendezvous: what it is told, and what it is ordered to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass(eq=False, slots=True)
class JoinedWorker:
    """One of a session. It carries out orders one after the other; a run has some, `hotline up` has none."""

    rank: int
    writer: asyncio.StreamWriter
    reports: int = 0
    """That it has made."""
    steps: int = 0
    """That it has done since its calls were last let through."""
    last: Message = field(default_factory=dict)
    """What it has told of itself when it left."""
    has_left: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False
    """It has ended without leaving."""
    on_steps: Callable[[], None] = lambda: None
    """Called when it tells of steps, and when it leaves."""
    _ordered: int = 0
    _orders: dict[int, asyncio.Future[Message | None]] = field(default_factory=dict)

    def order(self, what: str, **values: object) -> asyncio.Future[Message | None]:
        """Send an order; its answer, or None of a worker that leaves before."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        if self.has_left.is_set():
            answer.set_result(None)
            return answer
        self._ordered += 1
        self._orders[self._ordered] = answer
        send(self.writer, {"order": self._ordered, "do": what, **values})
        return answer

    def has_done(self, order: int, answer: Message) -> None:
        """It has carried out an order; raises `KeyError` for one that it was not given."""
        future = self._orders.pop(order)
        if not future.done():
            future.set_result(answer)

    def tells(self, steps: int) -> None:
        """How far it is."""
        self.steps = steps
        self.on_steps()

    def leave(self, is_in_order: bool = True) -> None:
        """It is gone."""
        self.is_lost = not is_in_order
        self.has_left.set()
        for future in self._orders.values():
            if not future.done():
                future.set_result(None)
        self._orders.clear()
        self.on_steps()


def send(writer: asyncio.StreamWriter, message: Message) -> None:
    """A line, to whoever is still there."""
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")
