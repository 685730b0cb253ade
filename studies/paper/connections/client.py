"""`python -m studies.paper.connections.client`: thousands of callers, each with its own socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.errors import HotlineError
from foundation.protocol.header import HEADER_BYTES, LAYOUT, WINDOW, Header, Op
from foundation.protocol.rpc import rpcs
from hosts.agent import Commands
from hosts.sockets import clock_offset, open_udp
from hosts.udp import MONOTONIC, Udp, clock, flush, make_udp, name_of, queue, socket_name, take
from nativekit.bits import swap16, swap32
from nativekit.compile import int64
from nativekit.libc import ppoll
from nativekit.records import records
from nativekit.reference import as_ref
from studies.paper.connections.process import Handlers, ProcessConfig, run
from studies.paper.connections.waiting import POLLFD

_PATIENCE_S = 2
_POLLIN = 1


class ClientConfig(ProcessConfig):
    """Callers 1 to `callers` of a job, each with a UDP port from `first_port` on."""

    first_port: int
    callers: int
    service: tuple[str, int]


@entry_point
def call_each(udp: Udp, request: Any, fds: Any, turns: Any, order: Any, polled: Any, took: Any) -> int:
    """An empty RPC by each caller in `order` [n], one at a time.

    `took` [n] is from sending to having read, ns; `turns` [callers] has the number of each one's next RPC.
    Returns how many were answered in time.
    """
    udp, request = as_ref(udp), as_ref(request)
    timespec = np.zeros(2, np.int64)
    timespec[0] = _PATIENCE_S
    for k in range(len(order)):
        caller = int64(order[k])
        fd = int64(fds[caller])
        request[0].worker = swap16(caller + 1)
        request[0].seq = swap32(int64(turns[caller]))
        turns[caller] += 1
        began = clock(udp, MONOTONIC)
        queue(udp, int64(request.ctypes.data), HEADER_BYTES, name_of(udp, 0))
        flush(udp, fd)
        polled[0].fd, polled[0].events = fd, _POLLIN
        if int64(ppoll(polled.ctypes.data, 1, timespec.ctypes.data, 0)) <= 0:
            return k
        if take(udp, fd, 1) != 1:
            return k
        took[k] = clock(udp, MONOTONIC) - began
    return len(order)


class ClientProcess:
    """The callers."""

    def __init__(self, config: ClientConfig, commands: Commands) -> None:
        self._config = config
        self._udp = make_udp(clock_offset())
        self._request = rpcs(1)
        head = Header(op=Op.EMPTY, job=config.job, epoch=config.epoch)
        self._request.head[0] = np.frombuffer(LAYOUT.pack(*head), np.uint32)
        self._open: list[socket.socket] = []
        # The first turn of a slot is 1.
        self._turns: NDArray[np.int64] = np.full(config.callers, WINDOW, np.int64)
        self._polled = records(1, POLLFD)
        self._commands = commands
        self.connect()

    def connect(self) -> None:
        """Open every caller's socket."""
        config = self._config
        for number in range(config.callers):
            self._open.append(open_udp((config.address, config.first_port + number)))
        # Where the source of what is received will stand: the service, too.
        self._udp.state.names[0] = np.frombuffer(socket_name(config.service), np.uint8)

    def close(self) -> None:
        """Close them."""
        for each in self._open:
            each.close()

    def measure(self, callers: int, rpcs: int, seed: int) -> dict[str, object]:
        """So many RPCs, by as many callers in random order, each as often as another; latencies in µs."""
        fds = np.array([each.fileno() for each in self._open], np.int64)
        rng = np.random.default_rng(seed)
        rounds = -(-rpcs // callers)
        order = np.concatenate([rng.permutation(callers) for _ in range(rounds)])[:rpcs].astype(np.int64)
        took = np.zeros(rpcs, np.int64)
        answered = call_each(self._udp, self._request, fds, self._turns, order, self._polled, took)
        if answered < rpcs:
            raise HotlineError(
                f"caller {int(order[answered]) + 1} of {callers} had no answer in {_PATIENCE_S} s"
            )
        us = took / 1e3
        return {
            "mean": float(us.mean()),
            **{f"p{q}": float(np.percentile(us, q, method="inverted_cdf")) for q in (50, 99)},
        }

    def handlers(self) -> Handlers:
        """The commands by name."""
        return {"measure": self.measure}

    def wait(self) -> None:
        """Wait for a command."""
        self._commands.read()


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True)
def main(path: Path) -> None:
    """Call; commands come as JSON lines on standard input."""
    run(path, ClientConfig, ClientProcess)


if __name__ == "__main__":
    main()
