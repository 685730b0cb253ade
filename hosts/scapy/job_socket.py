"""The socket of a worker in one job, its event loop, its ledger and its unanswered requests."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Sequence

from scapy.packet import Packet

from foundation.designs.registry import design
from hosts.agent import Commands
from hosts.agent_config import AgentConfigError
from hosts.in_flight import InFlight
from hosts.scapy.ledger import LedgerFile
from hosts.scapy.packets import WINDOW, Address, Hotline, datagram_of, destination_of, packet_of
from hosts.scapy.worker import ScapyWorker
from hosts.sockets import Receiver, common_port, open_udp, send
from hosts.succession import Exchange, Remainder, ledger_file, succeed
from hosts.worker_config import WorkerConfig, WorkerJobConfig
from hosts.workload.trace import Trace

_NS_PER_S = 1e9
clock = time.monotonic_ns


class ScapyJobSocket:
    """A worker of one job, its socket and its ledger."""

    def __init__(self, config: WorkerConfig, job: WorkerJobConfig, trace: Trace, commands: Commands) -> None:
        self.arm, self._commands = job.arm, commands
        services = {each.ps: Address(each.address, each.port) for each in config.services}
        if sorted(services) != list(range(config.n_ps)):
            raise AgentConfigError(f"services: expected PS 0 to {config.n_ps - 1}, got PS {sorted(services)}")
        self._address = Address(config.address, job.udp_port)
        addresses = [services[ps] for ps in range(config.n_ps)]
        self.worker = ScapyWorker(
            job.job, config.number, job.epoch, self._address, addresses, config.window,
            trace.space.key_ranges,
        )  # fmt: skip
        # A switch with service addresses checks the sender only of datagrams from the services' port.
        source_port = common_port(services.values()) if design(config.design).has_services else None
        self.socket = open_udp(self._address, source_port=source_port)
        self._receiver = Receiver(self.socket)
        self.remainder: Remainder | None = None
        self._requests: InFlight | None = None
        if config.has_successors:
            exchange = Exchange(self.socket, addresses, commands.fd)
            self.remainder, self._requests = succeed(config, job, trace.space, exchange)
        self.ledger = LedgerFile(
            job.job, job.epoch, trace.space, trace.largest_batch, ledger_file(config, job.job, job.epoch),
            design(config.design).combination,
        )  # fmt: skip

    def send(self, packets: Sequence[Packet]) -> None:
        for packet in packets:
            datagram = datagram_of(packet)
            if self._requests is not None:
                self._requests.put(packet[Hotline].seq % WINDOW, datagram)
            send(self.socket, datagram, destination_of(packet))

    def run_until(self, is_done: Callable[[], bool], due: int | None = None) -> None:
        """Receive, send and retransmit until `is_done`, or until a time; exit when standard input ends."""
        while not is_done() and (due is None or clock() < due):
            self.send(self.worker.wake(clock()))
            deadlines = [each for each in (due, self.worker.deadline()) if each is not None]
            timeout_s = max(min(deadlines) - clock(), 0) / _NS_PER_S if deadlines else None
            ready, _, _ = select.select([self.socket.fileno(), self._commands.fd], [], [], timeout_s)
            if self._commands.fd in ready:
                self._commands.read()
                if self._commands.closed:
                    sys.exit(0)
            self.receive()

    def receive(self) -> None:
        """Handle the datagrams that have arrived."""
        while (received := self._receiver.receive()) is not None:
            packet = packet_of(received.datagram, Address(*received.source), self._address)
            packet.time, rows = received.arrival, len(self.worker.log)
            packets = self.worker.handle(packet, clock())
            if len(self.worker.log) > rows:
                if self._requests is not None:
                    self._requests.clear(packet[Hotline].seq % WINDOW)
                row = self.worker.log[-1]
                row.w_queue, row.w_proc = received.read - received.arrival, clock() - received.read
            self.send(packets)

    def take_counters(self) -> dict[str, int]:
        return {name: getattr(self.worker, name) for name in ("retransmissions", "malformed", "unexpected")}
