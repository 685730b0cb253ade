"""A PS's socket loop: the data port, a connected socket for each worker where asked for, and its own RPCs."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Collection

from hosts.agent import Commands
from hosts.ps.core import ParameterServer
from hosts.sockets import Address, Receiver, open_udp, send
from protocol.header import HOTLINE_PORT, PS_RPC_PORT

_READ_BURST = 64
_LONGEST_WAIT_S = 1.0


class Sockets:
    """The PS's sockets. Jobs in `connected` get one connected socket for each worker's 5-tuple ([DDL] §3)."""

    def __init__(
        self,
        core: ParameterServer[Address],
        address: str,
        service: Address,
        connected: Collection[int],
        offset: int,
    ) -> None:
        self._core = core
        self._service = service
        self._connected = connected
        self._offset = offset
        self._local = (address, HOTLINE_PORT)
        self._poll = select.epoll()
        self._peers: set[Address] = set()
        self._open: dict[int, tuple[socket.socket, Receiver]] = {}
        self._data = self._add(open_udp(self._local, shared=True))
        self._own = self._add(open_udp((address, PS_RPC_PORT)))

    def close(self) -> None:
        """Close all sockets."""
        self._poll.close()
        for sock, _ in self._open.values():
            sock.close()

    def _add(self, sock: socket.socket) -> socket.socket:
        self._open[sock.fileno()] = sock, Receiver(sock, self._offset)
        self._poll.register(sock.fileno(), select.EPOLLIN)
        return sock

    def run_until_command(self, commands: Commands) -> None:
        """Serve until something has been read from standard input."""
        self._poll.register(commands.fd, select.EPOLLIN)
        try:
            while True:
                ready = self._wait()
                for fd in ready:
                    if fd != commands.fd:
                        self._serve(*self._open[fd])
                self._own_traffic()
                if commands.fd in ready:
                    commands.read()
                    return
        finally:
            self._poll.unregister(commands.fd)

    def _wait(self) -> list[int]:
        due = self._core.deadline()
        now = time.monotonic_ns()
        seconds = _LONGEST_WAIT_S if due is None else min(max(0, due - now) / 1e9, _LONGEST_WAIT_S)
        ready = [fd for fd, _ in self._poll.poll(seconds)]
        if due is not None:
            self._core.wake(time.monotonic_ns())
        return ready

    def _serve(self, sock: socket.socket, receiver: Receiver) -> None:
        """Handle a burst of one socket's datagrams."""
        core, counters = self._core, self._core.server.counters
        cpu_clock = time.thread_time_ns
        for _ in range(_READ_BURST):
            received = receiver.receive()
            if received is None:
                return
            if sock is self._own:
                core.receive_own(received.datagram, received.read)
                continue
            cpu = cpu_clock()
            out = core.handle(received.datagram, received.arrival, received.read, received.source)
            if out is None:
                continue
            job, answer = out
            # As for PS_proc in wall time: sending belongs to the network stack ([DDL] §2.2).
            counters[job].proc_cpu_ns += cpu_clock() - cpu
            send(sock, answer, received.source)
            if job in self._connected and received.source not in self._peers:
                self._connect(received.source)

    def _connect(self, peer: Address) -> None:
        """Give a worker its own socket; what is queued at the shared one is still read there."""
        self._peers.add(peer)
        sock = self._add(open_udp(self._local, shared=True))
        sock.connect(peer)

    def _own_traffic(self) -> None:
        """Send register RPCs, and answers to the controller."""
        for datagram in self._core.transmit():
            send(self._own, datagram, self._service)
        for answer, controller in self._core.control_answers():
            send(self._data, answer, controller)
