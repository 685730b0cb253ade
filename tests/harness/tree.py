"""A network of two leaves and spines, each with the P4 program, in place of the testbed's switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.network_rows import bundle_rows, rows_of_switch
from controller.tables import CPU_PORT, CallerKind, CallerPortRow, ServerRow, TableRow, WorkerRow
from foundation.protocol import frames
from foundation.protocol.frames import UdpEndpoint, packet_out_header
from foundation.protocol.header import PS_MASK, unpack
from foundation.protocol.leaf_spine import HotSetPlace, LeafSpine, Routing, ServerHomes, host_at
from softswitch.pipeline import ActionCall, Change, EntryWrite, Output, Pipeline
from tests.harness.switches import Attached, PipelineSwitch
from tests.harness.testbed import SERVERS, WORKERS, Frame, Testbed
from tests.harness.testnet import write

_FIRST_LINK = 1_000
"""Number of the first link on the testbed's wire, where ports of hosts are smaller."""


class Tree(PipelineSwitch):
    def __init__(
        self,
        new_switch: Callable[[], Pipeline],
        place: HotSetPlace,
        spines: int = 1,
        routing: Routing = "fixed",
    ) -> None:
        self.network = LeafSpine(WORKERS, SERVERS, place=place, spines=spines, routing=routing)
        network = self.network
        self.parts = [PipelineSwitch(new_switch()) for _ in network.switches]
        self._links = network.port_peers()
        """A switch and its port -> the switch and port at the other end."""
        self._link_numbers = sorted(self._links)
        self._callers: set[tuple[int, int]] = set()
        self.homes: ServerHomes = self.network.home_indexes
        self.levels, self.level_of = len(self.homes), {}
        for switch in network.switches:
            self._insert(switch, [*bundle_rows(network, switch)])

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        switch, local_port, frame = self._enter(port, frame)
        outputs = self.parts[switch].process(local_port, frame, t_in, now)
        return [output._replace(port=self._leave(switch, output.port)) for output in outputs]

    def _enter(self, port: int, frame: bytes) -> tuple[int, int, bytes]:
        if port >= _FIRST_LINK:
            return (*self._links[self._link_numbers[port - _FIRST_LINK]], frame)
        if port != CPU_PORT:
            return self.network.leaf_of(host_at(port)), port, frame
        header_bytes = len(packet_out_header(0))
        command = frame[header_bytes:]
        ps = unpack(frames.parse(command).payload).ps
        home = self.network.home_of(ps)
        port = self.network.toward_host(home, WORKERS + (ps & PS_MASK) + 1)
        return home, CPU_PORT, packet_out_header(port) + command

    def _leave(self, switch: int, port: int) -> int:
        if (switch, port) in self._links:
            return _FIRST_LINK + self._link_numbers.index((switch, port))
        return port

    def set_job(self, job: int, offload: bool, proxy: bool) -> None:
        for switch in self.network.homes:
            self.parts[switch].set_job(job, offload, proxy)

    def add_server(self, job: int, ps: int, server: Attached, service: UdpEndpoint) -> None:
        end = server.end
        row = ServerRow(job, ps, end.mac, end.address, end.port, server.port, *service)
        for switch in self.network.switches:
            self._install(switch, rows_of_switch([row], self.network, switch))

    def add_caller(self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool) -> None:
        end, kind = at.end, CallerKind.PRIVILEGED if privileged else CallerKind.WORKER
        new = WorkerRow(job, caller, epoch, row, end.mac, end.address, end.port, at.port, kind)
        for switch in self.network.switches:
            rows = rows_of_switch([new], self.network, switch)
            # A worker that has another epoch keeps its port.
            is_known = (job, caller) in self._callers
            self._install(
                switch, [each for each in rows if not (is_known and isinstance(each, CallerPortRow))]
            )
        self._callers.add((job, caller))

    def _install(self, switch: int, rows: Sequence[TableRow]) -> None:
        of_bundle = {*bundle_rows(self.network, switch)}
        self._insert(switch, [row for row in rows if row not in of_bundle])

    def _insert(self, switch: int, rows: Sequence[TableRow]) -> None:
        writes = [
            EntryWrite(Change.INSERT, entry.table, entry.key, ActionCall(entry.action, entry.args))
            for entry in (row.entry() for row in rows)
        ]
        write(self.parts[switch].pipeline, writes)

    def remove_caller(self, job: int, caller: int, epoch: int) -> None:
        for switch in self.network.homes:
            self.parts[switch].remove_caller(job, caller, epoch)

    def _home(self, key: int) -> PipelineSwitch:
        return self.parts[self.network.home_of(self.number_of(key, SERVERS))]

    def set_entry(self, job: int, key: int, state: str | None, slot: int) -> None:
        if not self.network.is_home_by_worker:
            self._home(key).set_entry(job, key, state, slot)
            return
        for home in self.network.homes:
            self.parts[home].set_entry(job, key, state, slot)

    def register(self, key: int, slot: int) -> int:
        return self._home(key).register(key, slot)


class TreeTestbed(Testbed):
    """The testbed, whose links between switches lose, double and reorder frames as those of hosts do."""

    switch: Tree

    def arrive(self, message: Frame) -> None:
        is_entering, port, frame = message
        super().arrive((is_entering or port >= _FIRST_LINK, port, frame))
