"""A queue of batches that a thread writes: `put` never blocks, and counts the rows that it drops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T", bound=Sized)
LIMIT = 16
"""Maximum number of batches that wait: with the 2^16 rows of an agent's batch a million rows, or 70 MB."""


class Backlog(Generic[T]):
    """Batches of rows, written in order. While `limit` of them wait for a slow disk, others are dropped."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.dropped = 0  # number of rows
        self._limit = limit
        self._executor = ThreadPoolExecutor(max_workers=1)
        self._queue: deque[tuple[Future[None], T]] = deque()

    def put(self, batch: T, write: Callable[[T], None]) -> bool:
        """Queue a call of `write` with the batch; returns False, and drops the batch, if too many wait."""
        if sum(not future.done() for future, _ in self._queue) >= self._limit:
            self.dropped += len(batch)
            return False
        self._queue.append((self._submit(batch, write), batch))
        return True

    def _submit(self, batch: T, write: Callable[[T], None]) -> Future[None]:
        try:
            return self._executor.submit(write, batch)
        except RuntimeError:
            # At the interpreter's exit the other thread has ended, and has written all earlier batches.
            result: Future[None] = Future()
            try:
                write(batch)
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(None)
            return result

    def take_written(self) -> list[T]:
        """Remove the batches at the head of the queue that are written, and return them for reuse."""
        written = []
        while self._queue and (future := self._queue[0][0]).done() and not future.exception():
            written.append(self._queue.popleft()[1])
        return written

    def settle(self) -> list[T]:
        """Wait until all batches are written, and return them; raise the first write error, but only once."""
        queue, self._queue = self._queue, deque()
        wait([future for future, _ in queue])
        for future, _ in queue:
            future.result()
        return [batch for _, batch in queue]

    def close(self) -> None:
        self._executor.shutdown()
