"""A worker's calls for one job, for Python, in designs that add up chunks of dense vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hosts.dense.packet import MAX_SIZE, MAX_WORKERS, MIN_SIZE
from hosts.dense.vector import VectorHeader, VectorState
from hosts.worker.vectors import Vector, VectorClient, check_below

UNIT = 2.0**-24  # unit roundoff of float32
MAX_EXPONENT = 127  # of float32


def addend_limit(workers: int) -> float:
    """Return the bound of the addends' absolute values below which no sum over `workers` overflows."""
    return float(2.0**MAX_EXPONENT / workers)


def error_bound(workers: int, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest error of float32 sums, [n]; `sizes` [n] are the sums of the absolute addends.

    W addends take W - 1 additions, each rounded to the nearest, in any order. So a sum differs from the exact
    one by at most γ(W-1) times the sum of the absolute addends (Higham, *Accuracy and Stability of Numerical
    Algorithms*, §4.2). Sums below 2^-126 are exact.
    """
    k = (workers - 1) * UNIT
    bound: NDArray[np.float64] = k / (1 - k) * sizes
    return bound


class DenseClient(VectorClient):
    """One worker's calls for one job. Floats are added as float32 (`error_bound`)."""

    state: VectorState
    _header: VectorHeader
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
            check_below(vector, limit := addend_limit(workers), f"{limit:g}")
        self.state.vector[: len(vector)] = vector.view(np.uint32)

    @property
    def result(self) -> Vector:
        words = self.state.vector[: self._header.n_keys]
        return words.view(np.float32) if self._header.is_float else words.view(np.int32)
