"""A worker's calls for one job, for Python, in designs in which all workers add up whole vectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.protocol.codec import Values
from hotline_agents.worker.client import NO_ITERATION, DesignClient
from hotline_allreduce.dense.packet import MAX_SIZE, MAX_WORKERS, MIN_SIZE
from hotline_allreduce.dense.vector import FLOATS, INTEGERS, VectorHeader, VectorState

Vector = NDArray[np.float32] | NDArray[np.int32]
UNIT_ROUNDOFF = 2.0**-24  # of float32
MAX_EXPONENT = 127  # of float32


class StalledError(HotlineError):
    """An all-reduce made no progress for its stall timeout."""


class VectorClient(DesignClient):
    """All workers of a job make the same calls, in the same order, and wait for each other.

    A pull reads the worker's own model; a push adds the sum of all workers' vectors to it.
    """

    state: VectorState
    _header: VectorHeader
    min_workers: ClassVar[int] = 1
    max_workers: ClassVar[int]
    stall_causes: ClassVar[str]  # the end of the message of `stall_message`

    @property
    def model(self) -> Values:
        return self.state.model[: self._space.size]

    @property
    def max_values(self) -> int:
        """Maximum number of values of a vector."""
        return len(self.state.model)

    @property
    @abstractmethod
    def result(self) -> Vector:
        """Result of the last all-reduce, [n]; the next one overwrites it."""

    @abstractmethod
    def put(self, vector: Vector, workers: int) -> None:
        """Store the addends [n]; raise `ValueError` for a value that cannot be added."""

    def stall_message(self, waited_s: float) -> str:
        """Return the error message after `waited_s` seconds without any arrival."""
        return (
            f"nothing has come for {waited_s:.1f} s in all-reduce {self._header.round_number}, with "
            f"{self._header.pending} packets to go: {self.stall_causes}"
        )

    def set_worker_count(self, workers: int) -> None:
        """Set the number of workers that add up; call this before the first push."""
        if not self.min_workers <= workers <= self.max_workers:
            raise ValueError(f"expected {self.min_workers} to {self.max_workers} workers, got {workers}")
        self._header.workers = workers

    def all_reduce(self, vector: Vector, workers: int) -> None:
        """Start to add up the vectors [n] of `workers` workers; the client must be idle.

        All have equal n and type: float32 is added as the design adds floats, int32 modulo 2^32. Raise
        `ValueError` for a vector that cannot be added.
        """
        if vector.ndim != 1:
            raise ValueError(f"expected a vector, got an array of {vector.ndim} dimensions")
        n = len(vector)
        if not 0 < n <= self.max_values:
            raise ValueError(f"expected a vector of 1 to {self.max_values} values, got {n}")
        if vector.dtype not in (np.float32, np.int32):
            raise ValueError(f"expected a vector of float32 or int32, got {vector.dtype}")
        self.set_worker_count(workers)
        self.put(vector, workers)
        op = FLOATS if vector.dtype == np.float32 else INTEGERS
        self._ops.start(self.reference, op, NO_ITERATION, n)

    @property
    def is_stalled(self) -> bool:
        """Whether no packet arrived for `header.stall_timeout` ns; a stalled client sends no packets."""
        return bool(self._header.stalled)

    def wake(self, now: int) -> None:
        """Retransmit overdue packets; raise `StalledError` after `stall_timeout` without any arrival."""
        super().wake(now)
        if self.is_stalled:
            waited_s = (now - int(self._header.last_arrival)) / 1e9
            raise StalledError(f"worker {self._header.worker}: {self.stall_message(waited_s)}")


def check_below(vector: Vector, limit: float, limit_text: str) -> None:
    invalid_indices = np.flatnonzero(~(np.abs(vector) < np.float32(limit)))
    if len(invalid_indices):
        index = int(invalid_indices[0])
        raise ValueError(
            f"value {index}: expected a number with a magnitude below {limit_text}, got {vector[index]}"
        )


def addend_limit(workers: int) -> float:
    """Return the bound of the addends' absolute values below which no sum over `workers` overflows."""
    return float(2.0**MAX_EXPONENT / workers)


def error_bound(workers: int, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest error of float32 sums, [n]; `sizes` [n] are the sums of the absolute addends.

    W addends take W - 1 additions, each rounded to the nearest, in any order. So a sum differs from the exact
    one by at most γ(W-1) times the sum of the absolute addends (Higham, *Accuracy and Stability of Numerical
    Algorithms*, §4.2). Sums below 2^-126 are exact.
    """
    k = (workers - 1) * UNIT_ROUNDOFF
    bound: NDArray[np.float64] = k / (1 - k) * sizes
    return bound


class DenseClient(VectorClient):
    """One worker's calls for one job. Floats are added as float32 (`error_bound`)."""

    max_workers = MAX_WORKERS
    stall_causes = "another worker, or a server, is gone"

    @property
    def chunk_size(self) -> int:
        """Number of values of a packet, the same at all workers; settable between operations."""
        return int(self._header.chunk_size)

    @chunk_size.setter
    def chunk_size(self, size: int) -> None:
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"expected chunks of {MIN_SIZE} to {MAX_SIZE} values, got {size}")
        self._header.chunk_size = size

    def put(self, vector: Vector, workers: int) -> None:
        if vector.dtype == np.float32:
            limit = addend_limit(workers)
            check_below(vector, limit, limit_text=f"{limit:g}")
        self.state.vector[: len(vector)] = vector.view(np.uint32)

    @property
    def result(self) -> Vector:
        words = self.state.vector[: self._header.n_keys]
        return words.view(np.float32) if self._header.is_float else words.view(np.int32)
