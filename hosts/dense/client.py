"""A worker's calls for one job, as Python sees them, in designs that add up dense vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.protocol.codec import Values
from hosts.dense.floats import most_of
from hosts.dense.packet import LEAST_SIZE, MOST_SIZE, WORKERS
from hosts.dense.vector import FLOATS, INTEGERS
from hosts.worker.client import BaseClient
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog

_NS = 1_000_000_000


class StalledError(HotlineError):
    """An all-reduce does not go on."""


class DenseClient(BaseClient):
    """All workers of a job make the same calls, in the same order, and wait for each other.

    A pull reads the worker's own model; a push adds what all push to it. A replay log has nothing to keep."""

    least_workers = 1

    def __init__(
        self, state: Any, clock: Callable[[], int], machine: Machine = COMPILED, log: ReplayLog | None = None
    ) -> None:
        super().__init__(state, clock, machine, log)

    @property
    def chunk_size(self) -> int:
        """Values of a packet, the same at all workers; it may be set between operations."""
        return int(self._me["full"])

    @chunk_size.setter
    def chunk_size(self, size: int) -> None:
        if not LEAST_SIZE <= size <= MOST_SIZE:
            raise ValueError(f"chunks of {size} values; {LEAST_SIZE} to {MOST_SIZE} expected")
        self._me["full"] = size

    @property
    def model(self) -> Values:
        """All parameters [size], which all workers have alike."""
        model: Values = self.state.model
        return model

    def join(self, workers: int) -> None:
        """So many workers add up from now on; who pushes, and does not all-reduce, says so first."""
        if not self.least_workers <= workers <= WORKERS:
            raise ValueError(f"{workers} workers; {self.least_workers} to {WORKERS} expected")
        self._me["workers"] = workers

    def all_reduce(self, vector: NDArray[np.float32] | NDArray[np.int32], workers: int) -> None:
        """Start to add up the vectors of so many workers, [n] each; all of them have the same n and type.

        float32 is added as floats are (`hosts.dense.floats`), int32 modulo 2^32. Raises `ValueError` for a
        vector that cannot be added; the client must be idle."""
        n, most = len(vector), len(self.state.vector)
        if not 0 < n <= most:
            raise ValueError(f"a vector of {n} values; this client takes 1 to {most}")
        is_float = vector.dtype == np.float32
        if not (is_float or vector.dtype == np.int32):
            raise ValueError(f"a vector of {vector.dtype}; float32 or int32 expected")
        self.join(workers)
        if is_float:
            _check(vector, workers)
        self.state.vector[:n] = vector.view(np.uint32)
        self._machine.start(self.state, FLOATS if is_float else INTEGERS, 0, n)

    @property
    def result(self) -> NDArray[np.float32] | NDArray[np.int32]:
        """Of the last all-reduce, [n]; the next one writes over it."""
        words = self.state.vector[: self._me["n_keys"]]
        result: NDArray[Any] = words.view(np.float32 if self._me["is_float"] else np.int32)
        return result

    @property
    def is_stalled(self) -> bool:
        """Nothing has come for `me.patience`; nothing is sent any more."""
        return bool(self._me["stalled"])

    def wake(self, now: int) -> None:
        """Do what is due; raises `StalledError` when nothing has come for so long that nothing will."""
        super().wake(now)
        if self.is_stalled:
            me = self._me
            waited_s = (now - int(me["progress"])) / _NS
            raise StalledError(
                f"worker {me['worker']}: nothing has come for {waited_s:.1f} s in all-reduce {me['number']}, "
                f"with {me['pending']} packets to go: another worker, or a server, is gone"
            )


def _check(vector: NDArray[Any], workers: int) -> None:
    """Raise `ValueError` for the first value of which a sum could overflow."""
    most = most_of(workers)
    wrong = np.flatnonzero(~(np.abs(vector) < np.float32(most)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"value {at} is {vector[at]}; finite ones below {most:g} can be added")
