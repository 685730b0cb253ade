"""SwitchML: workers send dense vectors chunk by chunk, and the switch adds them up."""

from __future__ import annotations

import numpy as np

from hotline_agents.ps.idle_server import SERVER, make_idle_server
from hotline_agents.ps.server_core import make_agents
from hotline_allreduce.dense.client import Vector, VectorClient, check_below
from hotline_allreduce.switchml.packet import WORKERS
from hotline_allreduce.switchml.window import ReducerHeader, ReducerState
from hotline_allreduce.switchml.worker import (
    MAX_EXPONENT,
    WORKER,
    Reducer,
    make_large_packet_reducer,
    make_reducer,
)

__all__ = ["AGENTS", "LARGE_PACKET_AGENTS", "SERVER", "WORKER"]


class WindowClient(VectorClient):
    """One worker's calls for one job, in SwitchML's window."""

    state: ReducerState
    _header: ReducerHeader
    max_workers = WORKERS

    @property
    def incomplete(self) -> int:
        """Number of results that the switch completed without the values of all workers."""
        return int(self._header.incomplete)

    def stall_message(self, waited_s: float) -> str:
        header = self._header
        return (
            f"no result for {waited_s:.1f} s in all-reduce {header.round_number}, with {header.pending} of "
            f"{header.n_packets} packets to go: another worker has stopped, or the switch has lost its state"
        )


class SwitchMLClient(WindowClient):
    state: Reducer
    make_state = staticmethod(make_reducer)

    def put(self, vector: Vector, workers: int) -> None:
        words = int(self._header.words)
        n, padded_size = len(vector), -(-len(vector) // words) * words
        if is_float := vector.dtype == np.float32:
            check_below(vector, 2.0**MAX_EXPONENT, limit_text=f"2^{MAX_EXPONENT}")
        target = self.state.floats if is_float else self.state.vector.view(np.int32)
        target[:n], target[n:padded_size] = vector, 0  # packets have whole chunks

    @property
    def result(self) -> Vector:
        values = self.state.floats if self._header.is_float else self.state.vector.view(np.int32)
        result: Vector = values[: self._header.n_keys]
        return result


class LargePacketClient(SwitchMLClient):
    """A client whose packets have 256 values."""

    make_state = staticmethod(make_large_packet_reducer)


AGENTS = make_agents(SwitchMLClient, make_idle_server)
LARGE_PACKET_AGENTS = make_agents(LargePacketClient, make_idle_server)
