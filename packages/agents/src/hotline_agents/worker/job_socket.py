"""A worker's socket of one job, and the loop that runs a block on it, one operation at a time."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from foundation.compiled import pinned
from foundation.logs.rpc_row import RpcRow
from hosts.agent import Commands, SignalPipe
from hosts.sockets import Address
from hotline_agents.interface import WorkerState
from hotline_agents.udp import BURST, Udp
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.compiled_loop import INTERRUPTED, LOG_FULL, Wire, make_wire
from nativekit.records import records

_REPORT_NS = 500_000_000  # interval of reports
_PAST_NS = 0  # a deadline with which the loop returns after one pass

Operate = Callable[[WorkerState, Udp, Wire, int], int]


class Driver(Protocol):
    @property
    def finished(self) -> bool: ...

    def deadline(self) -> int | None: ...

    def wake(self, now: int) -> None: ...


class LoopContext(NamedTuple):
    udp: Udp
    commands: Commands
    signals: SignalPipe
    operate: Operate
    handle_urgent_commands: Callable[[], None] = lambda: None


class JobSocket:
    def __init__(
        self,
        sock: socket.socket,
        peers: Sequence[Address],
        context: LoopContext,
    ) -> None:
        self._context = context
        self._wire = make_wire(sock.fileno(), peers, context.commands.fd, context.signals.fd)
        self._udp_reference, self._wire_reference = pinned(context.udp), pinned(self._wire)

    def run(
        self, driver: Driver, client: BaseClient, report: Callable[[], None], swap_logs: Callable[[], None]
    ) -> None:
        """Run until the driver has finished; exit the process when standard input ends.

        `report` is called twice a second, `swap_logs` when the client's log is full.
        """
        # Commands that were read together with the command for this block cause no wake-up.
        self._context.handle_urgent_commands()
        report_due = time.monotonic_ns() + _REPORT_NS
        while True:
            now = time.monotonic_ns()
            driver.wake(now)
            if driver.finished:
                return
            if now >= report_due:
                report()
                report_due = now + _REPORT_NS
            deadline_ns = report_due
            if client.idle:
                deadline_ns = min(deadline_ns, driver.deadline() or 0)  # without a deadline, at once
            reason = self._operate(client, deadline_ns)
            if reason == LOG_FULL:
                swap_logs()
            elif reason == INTERRUPTED:
                self._handle_wakeup()

    @property
    def fd(self) -> int:
        return int(self._wire.state.fd)

    def drain_between_blocks(self, client: BaseClient) -> None:
        client.take_records(records(BURST, RpcRow))  # room in the log, for rows that are not written
        for _ in range(2):  # the loop sends before it receives: the second pass sends the answers
            self._operate(client, _PAST_NS)

    def _operate(self, client: BaseClient, deadline_ns: int) -> int:
        return self._context.operate(client.reference, self._udp_reference, self._wire_reference, deadline_ns)

    def _handle_wakeup(self) -> None:
        commands, signals = self._context.commands, self._context.signals
        ready, _, _ = select.select([commands.fd, signals.fd], [], [], 0)
        if signals.fd in ready:
            signals.drain()
        if commands.fd in ready:
            commands.read()
            if commands.closed:
                sys.exit(0)
            self._context.handle_urgent_commands()
