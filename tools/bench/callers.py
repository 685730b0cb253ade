"""Compiled callers that keep as many RPCs in flight as the window allows, and only count the answers."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

from foundation.compiled import entry_point
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import BUFFER_BYTES
from hosts.sockets import Address
from hotline_agents.udp import BURST, Udp, flush, make_udp, queue, take
from hotline_agents.worker.compiled_loop import Wire, make_wire, wait
from nativekit.bits import swap16, swap32
from nativekit.clocks import MONOTONIC, read_clock
from nativekit.compile import int64
from nativekit.reference import as_ref
from switch_bench.errors import BenchError
from tools.bench.requests import FIRST_WORKER, Requests

CALLERS = 4
"""Number of callers, each with its own window."""
_TIMEOUT_NS = 500_000_000
_SPINS = 4
"""Empty reads of the socket before the loop waits for it."""
NO_FD = -1  # instead of a file descriptor


class Trial(NamedTuple):
    rpcs: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.rpcs / self.seconds


class Callers:
    """Callers of one server, which share a socket."""

    def __init__(self, sock: socket.socket, server: Address) -> None:
        self._udp = make_udp()
        self._wire = make_wire(sock.fileno(), [server], NO_FD, NO_FD)
        self._issued = 0

    def call(self, requests: Requests, count: int) -> Trial:
        """Issue `count` RPCs and await the answers; reuse `requests`, more than CALLERS * WINDOW, in turn."""
        first, self._issued = self._issued, self._issued + count
        answered, duration_ns = exchange(self._udp, self._wire, requests.rpcs, requests.octets, first, count)
        if answered != count:
            raise BenchError(f"{answered} of {count} RPCs were answered")
        return Trial(answered, duration_ns / 1e9)


@entry_point
def exchange(udp: Udp, wire: Wire, requests: Any, octets: int, first: int, count: int) -> tuple[int, int]:
    """Issue `count` RPCs, numbered from `first` on; return how many were answered, and the time in ns."""
    udp, wire = as_ref(udp), as_ref(wire)
    fd, server = int64(wire.state.fd), int64(wire.peers.ctypes.data)
    requests_address = int64(requests.ctypes.data)
    start_ns = read_clock(udp.state, MONOTONIC)
    issued, answered, spins = int64(0), int64(0), int64(0)
    while answered < count:
        while issued < min(count, answered + CALLERS * WINDOW) and udp.state.queued < BURST:
            number, index = first + issued, issued % len(requests)
            turn, slot = number // (CALLERS * WINDOW), number % (CALLERS * WINDOW)
            # The first turn of a slot is 1.
            requests[index].seq = swap32((turn + 1) * WINDOW + slot % WINDOW)
            requests[index].worker = swap16(FIRST_WORKER + slot // WINDOW)
            queue(udp, requests_address + index * BUFFER_BYTES, octets, server)
            issued += 1
        flush(udp, fd)
        received = take(udp, fd, BURST)
        answered += received
        spins = 0 if received else spins + 1
        if spins > _SPINS:
            wait_start_ns = read_clock(udp.state, MONOTONIC)
            wait(wire, _TIMEOUT_NS)
            if read_clock(udp.state, MONOTONIC) - wait_start_ns >= _TIMEOUT_NS:
                break
    return answered, read_clock(udp.state, MONOTONIC) - start_ns
