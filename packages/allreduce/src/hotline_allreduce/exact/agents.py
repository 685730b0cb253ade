"""`exact`: the clients of workers, for Python, and the functions of workers and servers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hotline_agents.ps.idle_server import SERVER, make_idle_server
from hotline_agents.ps.server_core import make_agents
from hotline_agents.worker.client import NO_ITERATION
from hotline_allreduce.dense.client import Vector
from hotline_allreduce.dense.vector import FLOATS
from hotline_allreduce.exact.arithmetic import MAX_ADDENDS
from hotline_allreduce.exact.worker import (
    FLOATS_A_CHUNK,
    WORKER,
    ExactHeader,
    ExactReducer,
    make_exact_reducer,
)
from hotline_allreduce.switchml.agents import WindowClient
from hotline_allreduce.switchml.packet import VALUES

__all__ = ["AGENTS", "SERVER", "WORKER"]


class ExactClient(WindowClient):
    """One worker's calls for one job. Sums of float32 are correctly rounded; any float32 can be added."""

    state: ExactReducer
    _header: ExactHeader
    max_addends: ClassVar[int] = MAX_ADDENDS
    make_state = staticmethod(make_exact_reducer)

    def put(self, vector: Vector, workers: int) -> None:
        if vector.dtype == np.float32:
            self._put_shards(np.asarray(vector, np.float32)[None], workers)
        else:
            n = len(vector)
            self.state.vector[:n] = vector.view(np.uint32)
            self.state.vector[n : -(-n // VALUES) * VALUES] = 0  # packets have whole chunks

    def all_reduce_shards(self, shards: NDArray[np.float32], workers: int) -> None:
        """Start to add up all rows of the arrays [shards, n] of `workers` workers; the client must be idle.

        All workers have equally many shards. The sums depend on the rows of all of them, and not on which
        worker has which.
        """
        if shards.ndim != 2 or shards.dtype != np.float32:
            raise ValueError(
                f"shards: expected an array of two dimensions of float32, got {shards.ndim} of {shards.dtype}"
            )
        self.set_worker_count(workers)
        self._put_shards(shards, workers)
        self._ops.start(self.reference, FLOATS, NO_ITERATION, shards.shape[1])

    def _put_shards(self, shards: NDArray[np.float32], workers: int) -> None:
        count, n = shards.shape
        stride = -(-n // FLOATS_A_CHUNK) * FLOATS_A_CHUNK
        if not 1 <= count * workers <= self.max_addends:
            raise ValueError(
                f"shards: expected at most {self.max_addends // workers} for {workers} workers, got {count}"
            )
        if not 0 < count * stride <= self.max_values:
            raise ValueError(
                f"shards: expected at most {self.max_values} values with padding, got {count * stride}"
            )
        padded = self.state.addends[: count * stride].reshape(count, stride)
        padded[:, :n], padded[:, n:] = shards.view(np.uint32), 0
        self._header.shards, self._header.stride = count, stride

    @property
    def result(self) -> Vector:
        header = self._header
        if header.is_float:
            return self.state.sums.view(np.float32)[: header.n_keys]
        return self.state.vector.view(np.int32)[: header.n_keys]

    @property
    def repeated_share(self) -> float:
        """Share of the floats added up so far that took a second pass; 0 if there are none."""
        return float(self._header.n_repeated / max(1, self._header.n_floats))


AGENTS = make_agents(ExactClient, make_idle_server)
