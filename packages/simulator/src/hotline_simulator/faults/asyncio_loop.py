from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hotline_agents.interface import NEVER

T = TypeVar("T")
_NS_PER_S = 1_000_000_000


class _NoSelector:
    # An asyncio loop waits in `select` for its next timer; a loop in simulated time must not wait.
    def select(self, timeout: float | None) -> list[object]:
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in simulated time: `run_due` runs the callbacks that are due, and never waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0  # ns
        self._selector = _NoSelector()

    def time(self) -> float:
        return self.now / _NS_PER_S

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass  # it would wake a loop that waits

    def run_due(self, now: int) -> None:
        self.now = now
        loop: Any = self  # asyncio's private attributes have no type hints
        outer_loop = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._has_work():
                loop._run_once()
        finally:
            asyncio._set_running_loop(outer_loop)

    def next_due(self) -> int:
        """Return when the next callback is due, ns; NEVER if there is none."""
        loop: Any = self  # as in `run_due`
        while loop._scheduled and loop._scheduled[0]._cancelled:
            loop._run_once()  # removes cancelled timers
        # Rounded up, so that the callback is due at that time.
        return int(loop._scheduled[0]._when * _NS_PER_S) + 1 if loop._scheduled else NEVER

    def _has_work(self) -> bool:
        loop: Any = self  # as in `run_due`
        scheduled = loop._scheduled
        return bool(loop._ready) or bool(scheduled and scheduled[0]._when <= self.time())

    def begin(self, coroutine: Coroutine[object, None, T]) -> asyncio.Task[T]:
        task = self.create_task(coroutine)
        self.run_due(self.now)
        return task
