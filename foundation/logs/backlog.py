"""What waits to be written by another thread: whoever logs never waits, and what is dropped is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T", bound=Sized)
LIMIT = 16
"""Batches that wait at most. Of an agent's 2^16 rows each that is a million, and 70 MB."""


class Backlog(Generic[T]):
    """Batches of rows, written in order. More than `limit` of them mean a disk too slow: they are dropped."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.dropped = 0
        """Rows that were not written, so far."""
        self._limit = limit
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: deque[tuple[Future[None], T]] = deque()

    def put(self, batch: T, write: Callable[[T], None]) -> bool:
        """Have `write` called with the batch; False where too many wait, and its rows are dropped."""
        if sum(not future.done() for future, _ in self._writing) >= self._limit:
            self.dropped += len(batch)
            return False
        self._writing.append((self._submit(batch, write), batch))
        return True

    def _submit(self, batch: T, write: Callable[[T], None]) -> Future[None]:
        try:
            return self._thread.submit(write, batch)
        except RuntimeError:
            # At the interpreter's exit the other thread has ended, and has written all earlier batches.
            done: Future[None] = Future()
            try:
                write(batch)
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)
            return done

    def take_written(self) -> list[T]:
        """Batches at the head that have been written, which nobody needs any more."""
        written = []
        while self._writing and (future := self._writing[0][0]).done() and not future.exception():
            written.append(self._writing.popleft()[1])
        return written

    def settle(self) -> list[T]:
        """Wait until all is written, and take it; raises, once, what has failed first."""
        writing, self._writing = self._writing, deque()
        wait([future for future, _ in writing])
        for future, _ in writing:
            future.result()
        return [batch for _, batch in writing]

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
