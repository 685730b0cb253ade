"""A worker's calls in designs whose workers add up whole vectors together, as Python sees them."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.protocol.codec import Values
from hosts.worker.client import ClientHeader, DesignClient
from hosts.worker.lockstep import FLOATS, INTEGERS

Vector = NDArray[np.float32] | NDArray[np.int32]
_NS = 1_000_000_000


class StalledError(HotlineError):
    """An all-reduce does not go on."""


class LockstepHeader(ClientHeader, Protocol):
    """What `header` of these designs' states has besides."""

    worker: int
    workers: int
    stalled: int
    progress: int


class VectorClient(DesignClient):
    """All workers of a job make the same calls, in the same order, and wait for each other.

    A pull reads the worker's own model; a push adds what all push to it."""

    _header: LockstepHeader
    least_workers: ClassVar[int] = 1
    most_workers: ClassVar[int]

    @property
    @abstractmethod
    def model(self) -> Values:
        """All parameters [size], which all workers have alike."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """Values that a vector may have."""

    @property
    @abstractmethod
    def result(self) -> Vector:
        """Of the last all-reduce, [n]; the next one writes over it."""

    @abstractmethod
    def put(self, vector: Vector, workers: int) -> None:
        """Lay down what is to be added, [n]; raises `ValueError` for a value that cannot be."""

    @abstractmethod
    def why_stalled(self, waited_s: float) -> str:
        """What is told behind the worker's number when nothing has come for so long."""

    def join(self, workers: int) -> None:
        """So many workers add up from now on; who pushes, and does not all-reduce, says so first."""
        if not self.least_workers <= workers <= self.most_workers:
            raise ValueError(f"{workers} workers; {self.least_workers} to {self.most_workers} expected")
        self._header.workers = workers

    def all_reduce(self, vector: Vector, workers: int) -> None:
        """Start to add up the vectors of so many workers, [n] each; all of them have the same n and type.

        float32 is added as the design adds floats, int32 modulo 2^32. Raises `ValueError` for a vector that
        cannot be added; the client must be idle."""
        n = len(vector)
        if not 0 < n <= self.largest:
            raise ValueError(f"a vector of {n} values; this client takes 1 to {self.largest}")
        if vector.dtype not in (np.float32, np.int32):
            raise ValueError(f"a vector of {vector.dtype}; float32 or int32 expected")
        self.join(workers)
        self.put(vector, workers)
        self._machine.start(self.state, FLOATS if vector.dtype == np.float32 else INTEGERS, 0, n)

    @property
    def is_stalled(self) -> bool:
        """Nothing has come for `header.patience`; nothing is sent any more."""
        return bool(self._header.stalled)

    def wake(self, now: int) -> None:
        """Do what is due; raises `StalledError` when nothing has come for so long that nothing will."""
        super().wake(now)
        if self.is_stalled:
            waited_s = (now - int(self._header.progress)) / _NS
            raise StalledError(f"worker {self._header.worker}: {self.why_stalled(waited_s)}")


def check_below(vector: Vector, most: float, named: str) -> None:
    """Raise `ValueError` for the first value that is not below `most`, which is `named`, or not finite."""
    wrong = np.flatnonzero(~(np.abs(vector) < np.float32(most)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"value {at} is {vector[at]}; finite ones below {named} can be added")
