"""`python -m hotline_paper.connections.client`: thousands of callers, each with its own socket."""

from __future__ import annotations

import socket

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.errors import HotlineError
from foundation.protocol.header import HEADER_BYTES, LAYOUT, WINDOW, Header, Op
from foundation.protocol.rpc import Rpc, rpcs
from hosts.agent import Commands
from hosts.sockets import open_udp
from hotline_agents.udp import Udp, flush, make_udp, name_of, queue, socket_name, take
from hotline_paper.connections.process import Handlers, ProcessConfig, make_command
from hotline_paper.connections.waiting import PollFd, make_poll_fds
from nativekit.bits import swap16, swap32
from nativekit.clocks import MONOTONIC, read_clock
from nativekit.compile import int64
from nativekit.libc import ppoll
from nativekit.records import Ints, Records
from nativekit.reference import as_ref

_TIMEOUT_S = 2
_POLLIN = 1
_SERVICE = 0  # index of the destination in `udp.state.names`


class ClientConfig(ProcessConfig):
    first_port: int
    callers: int
    service: tuple[str, int]


@entry_point
def call_each(
    udp: Udp,
    request: Records[Rpc],
    fds: Ints,
    sequence_numbers: Ints,
    order: Ints,
    poll_fd: Records[PollFd],
    latencies: Ints,
) -> int:
    """Send an empty RPC from each caller in `order`[n], one at a time; return the number of answers in time.

    `latencies`[n] gets the times from send to receive in ns; `sequence_numbers`[callers] has the sequence
    number of each caller's next RPC.
    """
    udp, request = as_ref(udp), as_ref(request)
    timespec = np.zeros(2, np.int64)  # s and ns
    timespec[0] = _TIMEOUT_S
    for k in range(len(order)):
        caller = int64(order[k])
        fd = int64(fds[caller])
        request[0].worker = swap16(caller + 1)  # workers are numbered from 1
        request[0].seq = swap32(int64(sequence_numbers[caller]))
        sequence_numbers[caller] += 1
        start = read_clock(udp.state, MONOTONIC)
        queue(udp, int64(request.ctypes.data), HEADER_BYTES, name_of(udp, _SERVICE))
        flush(udp, fd)
        poll_fd[0].fd, poll_fd[0].events = fd, _POLLIN
        if int64(ppoll(poll_fd.ctypes.data, 1, timespec.ctypes.data, 0)) <= 0:
            return k
        if take(udp, fd, limit=1) != 1:
            return k
        latencies[k] = read_clock(udp.state, MONOTONIC) - start
    return len(order)


class ClientProcess:
    def __init__(self, config: ClientConfig, commands: Commands) -> None:
        self._udp = make_udp()
        self._request = rpcs(1)
        head = Header(op=Op.EMPTY, job=config.job, epoch=config.epoch)
        self._request.head[0] = np.frombuffer(LAYOUT.pack(*head), np.uint32)
        self._sockets: list[socket.socket] = []
        # Turns of a window slot begin at 1, so the first sequence number is WINDOW.
        self._sequence_numbers: NDArray[np.int64] = np.full(config.callers, WINDOW, np.int64)
        self._poll_fd = make_poll_fds([-1])
        self._commands = commands
        for caller in range(config.callers):
            self._sockets.append(open_udp((config.address, config.first_port + caller)))
        # The destination. Receiving overwrites it with the datagram's source, which is the same address.
        self._udp.state.names[_SERVICE] = np.frombuffer(socket_name(config.service), np.uint8)

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def measure(self, callers: int, rpcs: int, seed: int) -> dict[str, object]:
        """Send `rpcs` RPCs from the first `callers` callers in random order; return latencies in µs."""
        fds = np.array([each.fileno() for each in self._sockets], np.int64)
        rng = np.random.default_rng(seed)
        rounds = -(-rpcs // callers)  # rounded up
        order = np.concatenate([rng.permutation(callers) for _ in range(rounds)])[:rpcs].astype(np.int64)
        latencies_ns = np.zeros(rpcs, np.int64)
        answer_count = call_each(
            self._udp, self._request, fds, self._sequence_numbers, order, self._poll_fd, latencies_ns
        )
        if answer_count < rpcs:
            raise HotlineError(
                f"caller {int(order[answer_count]) + 1} of {callers} had no answer in {_TIMEOUT_S} s"
            )
        latencies_us = latencies_ns / 1e3
        return {
            "mean": float(latencies_us.mean()),
            **{f"p{q}": float(np.percentile(latencies_us, q, method="inverted_cdf")) for q in (50, 99)},
        }

    def handlers(self) -> Handlers:
        return {"measure": self.measure}

    def wait(self) -> None:
        self._commands.read()


if __name__ == "__main__":
    make_command("Send empty RPCs.", ClientConfig, ClientProcess)()
