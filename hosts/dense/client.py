"""A worker's calls for one job, as Python sees them, in designs that add up chunks of dense vectors."""

from __future__ import annotations

import numpy as np

from foundation.protocol.codec import Values
from hosts.dense.floats import most_of
from hosts.dense.packet import LEAST_SIZE, MOST_SIZE, WORKERS
from hosts.dense.vector import VectorHeader, VectorState
from hosts.worker.vectors import Vector, VectorClient, check_below


class DenseClient(VectorClient):
    """One worker's calls for one job. Floats are added as floats are (`hosts.dense.floats`)."""

    state: VectorState
    _header: VectorHeader
    most_workers = WORKERS

    @property
    def chunk_size(self) -> int:
        """Values of a packet, the same at all workers; it may be set between operations."""
        return int(self._header.full)

    @chunk_size.setter
    def chunk_size(self, size: int) -> None:
        if not LEAST_SIZE <= size <= MOST_SIZE:
            raise ValueError(f"chunks of {size} values; {LEAST_SIZE} to {MOST_SIZE} expected")
        self._header.full = size

    @property
    def model(self) -> Values:
        """All parameters [size], which all workers have alike."""
        model: Values = self.state.model
        return model

    @property
    def largest(self) -> int:
        """Values that a vector may have."""
        return len(self.state.vector)

    def put(self, vector: Vector, workers: int) -> None:
        """Lay down what is to be added, [n]; raises `ValueError` where a sum could overflow."""
        if vector.dtype == np.float32:
            check_below(vector, most := most_of(workers), f"{most:g}")
        self.state.vector[: len(vector)] = vector.view(np.uint32)

    @property
    def result(self) -> Vector:
        """Of the last all-reduce, [n]; the next one writes over it."""
        words = self.state.vector[: self._header.n_keys]
        return words.view(np.float32) if self._header.is_float else words.view(np.int32)

    def why_stalled(self, waited_s: float) -> str:
        """Workers and servers answer each other."""
        header = self._header
        return (
            f"nothing has come for {waited_s:.1f} s in all-reduce {header.number}, with {header.pending} "
            "packets to go: another worker, or a server, is gone"
        )
