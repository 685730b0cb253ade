"""A worker of `exact` for other programs: blocking all-reduces over UDP, by a switch with its program."""

from __future__ import annotations

import time
from types import TracebackType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Caller
from hosts.agent import Commands, SignalPipe
from hosts.keys import KeySpace
from hosts.sockets import Address, open_udp
from hotline_agents.udp import make_udp
from hotline_agents.worker.compiled_loop import operate
from hotline_agents.worker.job_socket import JobSocket, LoopContext
from hotline_allreduce.dense.client import StalledError
from hotline_allreduce.exact.agents import ExactClient
from hotline_allreduce.exact.design import EXACT

MAX_VALUES = 1 << 20
_NO_EPOCH = 0


class ExactGroup:
    """One of `workers` workers, which make the same calls in the same order.

        with ExactGroup(rank, 8, address=("10.0.1.1", 20019), switch=("10.0.3.1", 0xBEE1)) as group:
            sums = group.all_reduce(gradients)

    `address` is the worker's own, by which the switch identifies it, and `switch` that of the switch's
    service. An all-reduce that gets no answer for `stall_timeout_s` raises `StalledError`.
    """

    def __init__(
        self, rank: int, workers: int, *, address: Address, switch: Address, max_values: int = MAX_VALUES,
        stall_timeout_s: float = 10.0,
    ) -> None:  # fmt: skip
        if not 0 <= rank < workers:
            raise ValueError(f"rank: expected 0 to {workers - 1} for {workers} workers, got {rank}")
        self.rank, self.workers, self.max_values = rank, workers, max_values
        self._client = ExactClient(
            Caller(EXACT.job, rank + 1, _NO_EPOCH), 1, KeySpace(max_values), time.monotonic_ns, max_keys=1
        )
        self._client.set_worker_count(workers)
        self._client.state.header.stall_timeout = round(1e9 * stall_timeout_s)
        self._socket = open_udp(address)
        no_input = Commands(-1)  # neither commands nor signals: ppoll ignores negative descriptors
        context = LoopContext(make_udp(), no_input, cast(SignalPipe, no_input), operate)
        self._job_socket = JobSocket(self._socket, [switch], context)

    def __enter__(self) -> ExactGroup:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def repeated_share(self) -> float:
        """Share of the values so far that took a second pass."""
        return self._client.repeated_share

    def all_reduce(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the correctly rounded sums over all workers, which pass vectors of equal length."""
        if vector.ndim != 1 or vector.dtype != np.float32:
            raise ValueError(
                f"expected a vector of float32, got an array of {vector.ndim} dimensions of {vector.dtype}"
            )
        sums = np.empty_like(vector)
        for first in range(0, len(vector), self.max_values):
            part = slice(first, first + self.max_values)
            self._client.all_reduce(np.ascontiguousarray(vector[part]), self.workers)
            self._job_socket.run(_Completion(self._client), self._client, lambda: None, self._make_room)
            sums[part] = self._client.result
        self._make_room()
        return sums

    def _make_room(self) -> None:
        self._client.take_records()


class _Completion:
    """A driver of the loop that waits for one all-reduce."""

    def __init__(self, client: ExactClient) -> None:
        self._client = client

    @property
    def finished(self) -> bool:
        return self._client.idle

    def deadline(self) -> None:
        return None

    def wake(self, now: int) -> None:
        if self._client.is_stalled:
            header = self._client.state.header
            waited_s = (now - int(header.last_arrival)) / 1e9
            raise StalledError(f"worker {header.worker}: {self._client.stall_message(waited_s)}")
