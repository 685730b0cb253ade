"""ATP's agents: clients for Python, and the functions of workers and servers.

The switch adds up dense vectors in cells that jobs share; servers add up packets that get no cell.
"""

from __future__ import annotations

import numpy as np

from hotline_agents.ps.server_core import make_agents
from hotline_allreduce.atp.packet import WORKERS
from hotline_allreduce.atp.server import SERVER, make_server
from hotline_allreduce.atp.worker import WORKER, AtpHeader, AtpWorker, make_worker
from hotline_allreduce.dense.client import Vector, VectorClient, addend_limit, check_below

__all__ = ["AGENTS", "SERVER", "WORKER"]

MAX_SUM = 2**31 - 2
"""Largest absolute sum of integers: a cell that holds 2^31 - 1 or -2^31 counts as saturated."""


class AtpClient(VectorClient):
    """One worker's calls for one job. Integers must not overflow; floats are rounded (`worker.py`)."""

    state: AtpWorker
    _header: AtpHeader
    min_workers = 2
    max_workers = WORKERS
    stall_causes = "another worker, or the server, is gone or waits for another all-reduce"
    make_state = staticmethod(make_worker)

    def put(self, vector: Vector, workers: int) -> None:
        addends = self.state.floats if vector.dtype == np.float32 else self.state.vector.view(np.int32)
        if vector.dtype == np.float32:
            limit = addend_limit(workers)
            check_below(vector, limit, limit_text=f"{limit:g}")
        else:
            _check_integers(vector, MAX_SUM // workers)
        addends[: len(vector)], addends[len(vector) :] = vector, 0  # packets have whole chunks

    @property
    def result(self) -> Vector:
        sums = self.state.floats if self._header.is_float else self.state.vector.view(np.int32)
        result: Vector = sums[: self._header.n_keys]
        return result


def _check_integers(vector: Vector, limit: int) -> None:
    invalid_indices = np.flatnonzero(np.abs(vector.astype(np.int64)) > limit)
    if len(invalid_indices):
        index = int(invalid_indices[0])
        raise ValueError(f"value {index}: expected an integer from -{limit} to {limit}, got {vector[index]}")


AGENTS = make_agents(AtpClient, make_server)
