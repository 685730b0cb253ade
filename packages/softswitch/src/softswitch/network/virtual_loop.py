"""An asyncio event loop in virtual time, on which controllers and the P4Runtime service run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
NEVER = 1 << 62
"""ns: later than any time."""
_NS_PER_S = 1_000_000_000


class _NoSelector:
    # An asyncio loop waits in `select` for its next timer; a loop in virtual time must not wait.
    def select(self, timeout: float | None) -> list[object]:
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time: `run_due` runs the callbacks that are due, and never waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0  # ns
        self._selector = _NoSelector()
        self._readers: dict[int, Callable[[], object]] = {}
        self._failures: list[BaseException] = []
        self.set_exception_handler(self._store_failure)

    def time(self) -> float:
        return self.now / _NS_PER_S

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass  # it would wake a loop that waits

    # asyncio's own types need a `TypeVarTuple`, which Python 3.10 does not have.
    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self._readers[int(fd)] = lambda: callback(*args)

    def remove_reader(self, fd: Any) -> bool:  # as asyncio's
        return self._readers.pop(int(fd), None) is not None

    def call_reader(self, fd: int) -> None:
        """Call what reads a queue (`Datagrams`), after something was put into it."""
        if fd in self._readers:
            self.call_soon(self._readers[fd])

    def run_due(self, now: int) -> None:
        """Run what is due at `now`, ns; raise the first exception of a callback."""
        self.now = now
        loop: Any = self  # asyncio's private attributes have no type hints
        with self._running():
            while self._has_work():
                loop._run_once()
        if self._failures:
            failures, self._failures = self._failures, []
            raise failures[0]

    def run_now(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that waits for nothing; it may be called in a callback."""
        with self._running():
            try:
                coroutine.send(None)
            except StopIteration as finished:
                result: T = finished.value
                return result
        coroutine.close()
        raise AssertionError("expected a coroutine that waits for nothing")

    @property
    def is_in_callback(self) -> bool:
        return asyncio._get_running_loop() is self

    @contextmanager
    def _running(self) -> Iterator[None]:
        outer_loop = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(outer_loop)

    def _store_failure(self, _loop: object, context: dict[str, Any]) -> None:
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))

    def next_due(self) -> int:
        """Return when the next callback is due, ns; NEVER if there is none."""
        loop: Any = self  # as in `run_due`
        if loop._ready:
            return self.now
        while loop._scheduled and loop._scheduled[0]._cancelled:
            loop._run_once()  # removes cancelled timers
        return round(loop._scheduled[0]._when * _NS_PER_S) if loop._scheduled else NEVER

    def _has_work(self) -> bool:
        loop: Any = self  # as in `run_due`
        scheduled = loop._scheduled
        return bool(loop._ready) or bool(scheduled and round(scheduled[0]._when * _NS_PER_S) <= self.now)

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task, and run it until it waits."""
        task = self.create_task(coroutine)
        self.run_due(self.now)
        return task

    def shut_down(self) -> None:
        """Cancel all tasks, and close the loop."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.run_due(self.now)
        self.close()
