"""ATP's program in each switch of a network, and the judge's model of two levels, with the same frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from controller.controller_ops import rows_in_network
from foundation.designs.interface import SwitchHosts
from foundation.protocol import addressing, frames
from foundation.protocol.addressing import host_port
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.leaf_spine import LeafSpine, host_at
from hotline_allreduce.atp.control import CONTROL
from hotline_allreduce.atp.design import DESIGN
from hotline_allreduce.atp.model.rules import AtpSwitchModel, ServerModel
from hotline_allreduce.atp.model.subject import OTHER_OWNER
from hotline_allreduce.atp.model.two_levels import AtpTreeDescription
from hotline_allreduce.atp.packet import OVERFLOW, RESEND, SERVER_SHIFT, VALUES, AtpPacket, parse
from hotline_allreduce.judge.description import ROOT, SentFrame, leaf_at, node_name
from packages.allreduce.tests.harness.atp import arm_with
from tests.harness.programs import pipeline_of

JOB = 1  # the judge's only job


class Arrival(NamedTuple):
    """A frame that comes to a leaf, or to a worker."""

    leaf: int | None
    number: int  # the leaf's port, or the worker
    frame: bytes


class AtpNetwork:
    """Frames pass spines at once. A server has the plain model's rules; `ps` is the one that workers use."""

    def __init__(
        self, network: LeafSpine, ps: int, check: bool, description: Mapping[str, Any] | None = None
    ) -> None:
        self.network, self.ps, self._description = network, ps, description
        arms = [arm_with(check, job=JOB)]
        self._rows = CONTROL.rows(SwitchHosts(network.workers, network.servers), arms, 0)
        self.switches = [self._new_switch(switch) for switch in network.switches]
        self._peers, self._server = network.port_peers(), ServerModel(check=check)

    def _new_switch(self, switch: int) -> Any:  # a pipeline of either kind
        rows = rows_in_network(DESIGN, self._rows, self.network, switch)
        return pipeline_of(DESIGN, rows, self._description)

    def restart(self, switch: int) -> None:
        self.switches[switch] = self._new_switch(switch)

    @property
    def root(self) -> int:
        return self.network.leaf_of(self.network.workers + self.ps + 1)

    def send(self, worker: int, packet: AtpPacket) -> list[Arrival]:
        host, server = addressing.worker(worker + 1), addressing.server(self.ps + 1)
        source = UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(JOB))
        destination = UdpEndpoint(server.mac, server.address, DESIGN.udp_port)
        frame = frames.build(UdpFrame(source, destination, packet.build()))
        return self.process(self.network.leaf_of(worker + 1), host_port(worker + 1), frame)

    def process(self, switch: int, port: int, frame: bytes) -> list[Arrival]:
        found: list[Arrival] = []
        for output in self.switches[switch].process(port, frame, 0, 0):
            found += self._leave(switch, int(output.port), bytes(output.frame))
        return found

    def _leave(self, switch: int, port: int, frame: bytes) -> list[Arrival]:
        if (switch, port) in self._peers:
            other, other_port = self._peers[switch, port]
            if self.network.is_spine(other):
                return self.process(other, other_port, frame)
            return [Arrival(other, other_port, frame)]
        host = host_at(port)
        if host <= self.network.workers:
            return [Arrival(None, host - 1, frame)]
        assert host == self.network.workers + self.ps + 1, "a packet has come to another server"
        taken = frames.parse(frame)
        answer = self._server.take(parse(taken.payload))
        if answer is None:
            return []
        return self.process(
            switch, port, frames.build(UdpFrame(taken.destination, taken.source, answer.build()))
        )

    def cells(self, switch: int, name: str, count: int) -> list[int]:
        return list(self.switches[switch].cells.read_register(f"HotlineIngress.{name}", 0, count))

    def outcomes(self, switch: int) -> list[int]:
        counter = self.switches[switch].cells.read_counter("HotlineIngress.next_step.packets", 0, 8)
        return [cell.packets for cell in counter]


class _SmallAddends(AtpTreeDescription):
    def addend(self, worker: int, chunk: Any) -> int:
        return 1_000 * (worker + 1) + int(self.chunks.index(chunk))


class ComparedNetwork:
    """A network that is driven at random, and compared with the model's system after each step."""

    def __init__(self, programs: AtpNetwork, random: Random, check: bool) -> None:
        self.programs, self._random, network = programs, random, programs.network
        leaves = [network.leaf_of(worker + 1) for worker in range(network.workers)]
        leaf_of = [None if leaf == programs.root else network.downlink(leaf) - 1 for leaf in leaves]
        self.cells, packets = random.choice([(1, 1), (1, 2), (2, 3)])
        self.protocol = _SmallAddends(leaf_of, self.cells, packets, check)
        self.system = self.protocol.system()
        self._under_way: list[tuple[SentFrame, Arrival]] = []
        self._has_floats = random.random() < 0.2

    def nodes(self) -> list[tuple[int, AtpSwitchModel]]:
        """Return the switches of both levels, each with its model."""
        network, switch = self.programs.network, self.system.switch
        leaves = [(network.spines + leaf, switch[node_name(leaf_at(leaf))]) for leaf in self.protocol.leaves]
        return [(self.programs.root, switch[node_name(ROOT)]), *leaves]

    def occupy(self) -> None:
        """Give another job a cell of a switch."""
        number, model = self._random.choice(self.nodes())
        cell = self._random.randrange(self.cells)
        model.memory[cell].owner = OTHER_OWNER
        self.programs.switches[number].cells.write_register("HotlineIngress.claim.owners", cell, OTHER_OWNER)

    def restart(self) -> None:
        number, model = self._random.choice(self.nodes())
        [name] = [name for name, each in self.system.switch.items() if each is model]
        self.protocol.restarts(self.system)[f"{name} restarts"]()
        self.programs.restart(number)

    def step(self) -> None:
        if self._under_way and self._random.random() < 0.5:
            self._deliver(self._random.randrange(len(self._under_way)))
        else:
            self._send()
        self._compare_cells()

    def _send(self) -> None:
        worker = self._random.randrange(self.protocol.workers)
        sendable = [each.packet for each in self.protocol.sendable(worker, self.system.hosts[worker])]
        resent = RESEND if self._random.random() < 0.25 else 0
        packet: AtpPacket = self._random.choice([each for each in sendable if each.flags == resent])
        flags = packet.flags | self.programs.ps << SERVER_SHIFT
        if self._has_floats and self._random.random() < 0.05:
            flags |= OVERFLOW | RESEND
        packet = packet._replace(flags=flags)
        expected = self.protocol.at_switch(self.system, packet)
        self._put(expected, self.programs.send(worker, packet._replace(values=packet.values * VALUES)))

    def _deliver(self, index: int) -> None:
        sent, arrival = self._under_way[index]
        fate = self._random.random()
        if fate < 0.85:  # else there is a copy of it
            del self._under_way[index]
        if fate < 0.1:  # lost
            return
        if sent.destination >= 0:
            self.protocol.at_host(self.system, sent.destination, sent.packet)
            return
        expected = self.protocol.at_next_switch(self.system, *sent)
        assert arrival.leaf is not None
        self._put(expected, self.programs.process(arrival.leaf, arrival.number, arrival.frame))

    def _put(self, expected: Sequence[SentFrame], found: Sequence[Arrival]) -> None:
        """Check that the programs send what the model sends, and put it on the wire."""
        pairs = sorted((self._as_sent(arrival), arrival) for arrival in found)
        assert [sent for sent, _ in pairs] == sorted(SentFrame(*each) for each in expected)
        self._under_way += pairs

    def _as_sent(self, arrival: Arrival) -> SentFrame:
        packet = parse(frames.parse(arrival.frame).payload)
        assert len(set(packet.values)) == 1
        packet = packet._replace(values=packet.values[:1])
        if arrival.leaf is None:
            return SentFrame(arrival.number, packet)
        leaf = self.programs.network.downlink(arrival.leaf) - 1
        return SentFrame(ROOT if arrival.leaf == self.programs.root else leaf_at(leaf), packet)

    def _compare_cells(self) -> None:
        for number, model in self.nodes():
            columns = {
                "claim.owners": [cell.owner for cell in model.memory],
                "bitmaps.bitmaps": [cell.bitmap for cell in model.memory],
                "count.counts": [cell.count for cell in model.memory],
            }
            for name, column in columns.items():
                assert self.programs.cells(number, name, self.cells) == column, name
            sums = self.programs.cells(number, "value_61.sums", self.cells)
            for cell, total in zip(model.memory, sums, strict=True):
                assert cell.values == (() if not cell.values else (total,))


def compared(
    network: LeafSpine, seed: int, steps: int, description: Mapping[str, Any] | None = None
) -> ComparedNetwork:
    """Play random steps, in some schedules with a restart, or with cells of another job."""
    random = Random(seed)
    ps, check = random.randrange(network.servers), random.random() < 0.5
    played = ComparedNetwork(AtpNetwork(network, ps, check, description), random, check)
    for _ in range(random.choice([0, 0, 1, 2])):
        played.occupy()
    restart_at = random.choice([None, random.randrange(steps)])
    for step in range(steps):
        if step == restart_at:
            played.restart()
        played.step()
    return played
