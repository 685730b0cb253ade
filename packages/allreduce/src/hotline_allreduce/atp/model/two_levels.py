"""ATP with two levels of switches for the judge: leaves add up their workers, and a root adds up the leaves.

The published code has one level, and the paper was not to be had, so the rules of the second one are assumed
from its header, which has a bitmap and a number of packets for each level. Each level is a switch with the
published rules, which counts as many packets as it has children. A packet that found its cell taken at the
leaf passes the root unchanged. An acknowledgement frees the cell of the root, and then those of the leaves.
The server is beside the root, and so may workers be, which are children of the root as leaves are. A leaf
with one worker passes packets on. Runs have these rules, too (`hotline_allreduce.atp.control`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from hotline_allreduce.atp.model.description import AtpDescription
from hotline_allreduce.atp.model.rules import AtpSwitchModel
from hotline_allreduce.atp.packet import AtpPacket
from hotline_allreduce.judge.description import (
    ROOT,
    Event,
    JudgedSystem,
    SentFrame,
    leaf_at,
    node_name,
)


class AtpTreeDescription(AtpDescription):
    """`leaf_of` has the leaf of each worker, from 0 on; None if the worker is beside the root."""

    def __init__(
        self,
        leaf_of: Sequence[int | None] = (0, 0, 1),
        window: int = 1,
        packets: int = 1,
        check: bool = False,
    ) -> None:
        super().__init__(workers=len(leaf_of), window=window, packets=packets, check=check)
        self.leaf_of = tuple(leaf_of)
        self.leaves = sorted({leaf for leaf in leaf_of if leaf is not None})
        self.name = f"{self.name}, with two levels"

    def system(self) -> JudgedSystem:
        system, nodes = super().system(), dict[str, AtpSwitchModel]()
        for node in (ROOT, *map(leaf_at, self.leaves)):
            nodes[node_name(node)] = switch = super().system().switch
            switch.is_root = node == ROOT
            at_root = len(self.workers_of(None)) + len(self.leaves)
            switch.children = at_root if switch.is_root else len(self.workers_of(leaf_at(node)))
        system.switch = nodes
        return system

    def workers_of(self, leaf: int | None) -> list[int]:
        return [worker for worker in range(self.workers) if self.leaf_of[worker] == leaf]

    def at_switch(self, system: JudgedSystem, packet: AtpPacket) -> list[SentFrame]:
        leaf = self.leaf_of[packet.bitmap.bit_length() - 1]  # a worker's packet has its bit alone
        if leaf is None:
            return self.at_next_switch(system, ROOT, packet)
        if len(self.workers_of(leaf)) == 1:
            return [SentFrame(ROOT, packet)]
        output = self._node(system, leaf_at(leaf)).take(packet)
        return [] if output is None else [SentFrame(ROOT, output.packet)]

    def at_next_switch(self, system: JudgedSystem, destination: int, packet: AtpPacket) -> list[SentFrame]:
        if destination != ROOT:
            return self._at_leaf(system, leaf_at(destination), packet)
        root = self._node(system, ROOT)
        output = root.take(packet)
        answer = None if output is None else system.server.take(output.packet)
        if answer is None:
            return []
        acknowledged = root.take(answer)
        assert acknowledged is not None, "expected the server to acknowledge a cell of the root"
        receivers = [*self.workers_of(None), *map(leaf_at, self.leaves)]
        return [SentFrame(receiver, acknowledged.packet) for receiver in receivers]

    def _at_leaf(self, system: JudgedSystem, leaf: int, packet: AtpPacket) -> list[SentFrame]:
        output = self._node(system, leaf_at(leaf)).take(packet)
        assert output is not None, "expected an acknowledgement of a cell of the leaf"
        return [SentFrame(worker, output.packet) for worker in self.workers_of(leaf)]

    def _node(self, system: JudgedSystem, destination: int) -> AtpSwitchModel:
        node: AtpSwitchModel = system.switch[node_name(destination)]
        return node

    def restarts(self, system: JudgedSystem) -> Mapping[str, Event]:
        return {f"{name} restarts": partial(self._restart, system, name) for name in system.switch}

    def _restart(self, system: JudgedSystem, name: str) -> None:
        system.switch[name] = self.system().switch[name]

    def has_leak(self, system: JudgedSystem) -> bool:
        return any(cell.owner for node in system.switch.values() for cell in node.memory)
