"""A worker's socket loop: drives one block of a job over a UDP socket."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hosts.agent import Commands
from hosts.sockets import Address, Receiver, send
from hosts.worker.client import Client

_SEND_BURST = 8
_READ_BURST = 64
_REPORT_NS = 500_000_000
_LONGEST_WAIT_S = 1.0


class Driver(Protocol):
    """What decides on the operations: `Trainer` or `EmptyCalls`."""

    @property
    def finished(self) -> bool:
        """Nothing is left to do."""
        ...

    def deadline(self) -> int | None:
        """When `wake` is due next, or None."""
        ...

    def wake(self, now: int) -> None:
        """Do what is due."""
        ...


class Line:
    """A job's socket and where its services are."""

    def __init__(self, sock: socket.socket, services: Sequence[Address], offset: int) -> None:
        self._sock = sock
        self._services = services
        self._receiver = Receiver(sock, offset)

    def run(self, driver: Driver, client: Client, commands: Commands, report: Callable[[], None]) -> None:
        """Run until the driver has finished; leaves the process when standard input ends.

        Sends in small bursts, so that answers do not wait for the end of an operation's requests.
        """
        clock = time.monotonic_ns
        report_due = clock() + _REPORT_NS
        while not driver.finished:
            busy = self._send(client) + self._read(client)
            if client.idle:
                driver.wake(clock())
                # What has begun just now has something to send.
                busy += not client.idle
            if busy or driver.finished:
                continue
            now = clock()
            if now >= report_due:
                report()
                report_due = now + _REPORT_NS
            due = driver.deadline()
            if due is not None and due <= now:
                driver.wake(now)
                continue
            self._wait(_LONGEST_WAIT_S if due is None else (due - now) / 1e9, commands)

    def _send(self, client: Client) -> int:
        for sent in range(_SEND_BURST):
            out = client.transmit()
            if out is None:
                return sent
            datagram, ps = out
            send(self._sock, datagram, self._services[ps])
        return _SEND_BURST

    def _read(self, client: Client) -> int:
        for count in range(_READ_BURST):
            received = self._receiver.receive()
            if received is None:
                return count
            client.receive(received.datagram, received.arrival, received.read)
        return _READ_BURST

    def _wait(self, seconds: float, commands: Commands) -> None:
        """Sleep until a datagram, a command or the time comes; select, unlike epoll here, waits to the µs."""
        readable, _, _ = select.select(
            [self._sock.fileno(), commands.fd], [], [], min(seconds, _LONGEST_WAIT_S)
        )
        if commands.fd in readable:
            commands.read()
            if commands.closed:
                sys.exit(0)
