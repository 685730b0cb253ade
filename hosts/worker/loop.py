"""A worker's line: drives one block of a job over a UDP socket, an operation at a time."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from foundation.designs.interface import Design, WorkerState
from foundation.logs.columns import Row
from hosts.agent import Commands, SignalPipe
from hosts.sockets import Address
from hosts.udp import BURST, Udp
from hosts.worker.client import BaseClient
from hosts.worker.operate import CALLED, FULL, Wire, make_wire, operate
from nativekit.records import records

_REPORT_NS = 500_000_000

Operate = Callable[[WorkerState, Udp, Wire, int], int]
"""`hosts.worker.operate.operate`, or its plain twin."""


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


class Sockets(NamedTuple):
    """What the lines of a process share."""

    udp: Udp
    commands: Commands
    signals: SignalPipe
    operate: Operate
    handle_urgent_commands: Callable[[], None] = lambda: None
    """Does what commands ask for that is not to wait."""


def make_operate(codec: str, design: Design) -> Operate:
    """The loop with that codec: fast is the compiled one, scapy a plain one behind Scapy."""
    if codec == "scapy":
        from hosts.scapy_udp import behind_scapy

        return behind_scapy(operate, design)
    return operate


class Line:
    """A job's socket and where its peers are."""

    def __init__(
        self,
        sock: socket.socket,
        peers: Sequence[Address],
        sockets: Sockets,
    ) -> None:
        self._sockets = sockets
        self._wire = make_wire(sock.fileno(), peers, sockets.commands.fd, sockets.signals.fd)

    def run(
        self, driver: Driver, client: BaseClient, report: Callable[[], None], swap: Callable[[], None]
    ) -> None:
        """Run until the driver has finished; leaves the process when standard input ends.

        `report` is called twice a second, `swap` when the client's log is full.
        """
        # Of what came together with the command for this block, nothing calls.
        self._sockets.handle_urgent_commands()
        report_due = time.monotonic_ns() + _REPORT_NS
        while True:
            now = time.monotonic_ns()
            driver.wake(now)
            if driver.finished:
                return
            if now >= report_due:
                report()
                report_due = now + _REPORT_NS
            until = report_due
            if client.idle:
                until = min(until, driver.deadline() or 0)
            reason = self._sockets.operate(client.state, self._sockets.udp, self._wire, until)
            if reason == FULL:
                swap()
            elif reason == CALLED:
                self._heed()

    @property
    def fd(self) -> int:
        """File descriptor of its socket."""
        return int(self._wire.state.fd)

    def drain_between_blocks(self, client: BaseClient) -> None:
        """Between operations: take in what has come, and then answer what asks for it."""
        client.take_records(records(BURST, Row))
        for _ in range(2):
            self._sockets.operate(client.state, self._sockets.udp, self._wire, 0)

    def _heed(self) -> None:
        """Hear what has called; Python runs the signals' own handlers by itself."""
        commands, signals = self._sockets.commands, self._sockets.signals
        ready, _, _ = select.select([commands.fd, signals.fd], [], [], 0)
        if signals.fd in ready:
            signals.drain()
        if commands.fd in ready:
            commands.read()
            if commands.closed:
                sys.exit(0)
            self._sockets.handle_urgent_commands()
