"""ATP with two levels of switches for the judge: leaves add up their workers, and a root adds up the leaves.

The published code has one level, and the paper was not to be had, so the rules of the second one are assumed
from its header, which has a bitmap and a number of packets for each level. Each level is a switch with the
published rules, which counts as many packets as it has children. A packet that found its cell taken at the
leaf passes the root unchanged. An acknowledgement frees the cell of the root, and then those of the leaves.
The server is beside the root, and a leaf with one worker passes packets on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from hotline_allreduce.atp.model.description import AtpDescription
from hotline_allreduce.atp.model.rules import AtpSwitchModel
from hotline_allreduce.atp.packet import COLLISION, AtpPacket
from hotline_allreduce.judge.description import (
    ROOT,
    Event,
    JudgedSystem,
    SentFrame,
    leaf_at,
    node_name,
)


class AtpTreeDescription(AtpDescription):
    """`leaf_of` has the leaf of each worker, from 0 on."""

    def __init__(self, leaf_of: Sequence[int] = (0, 0, 1), check: bool = False) -> None:
        super().__init__(workers=len(leaf_of), check=check)
        self.leaf_of, self.leaves = tuple(leaf_of), sorted(set(leaf_of))
        self.name = f"{self.name}, with two levels"

    def system(self) -> JudgedSystem:
        system = super().system()
        system.switch = {
            node_name(node): super(AtpTreeDescription, self).system().switch
            for node in (ROOT, *map(leaf_at, self.leaves))
        }
        return system

    def workers_of(self, leaf: int) -> list[int]:
        return [worker for worker in range(self.workers) if self.leaf_of[worker] == leaf]

    def at_switch(self, system: JudgedSystem, packet: AtpPacket) -> list[SentFrame]:
        leaf = self.leaf_of[packet.bitmap.bit_length() - 1]  # a worker's packet has its bit alone
        children = self.workers_of(leaf)
        if len(children) == 1:
            return [SentFrame(ROOT, packet)]
        output = self._node(system, leaf_at(leaf)).take(packet._replace(workers=len(children)))
        return [] if output is None else [SentFrame(ROOT, output.packet._replace(workers=self.workers))]

    def at_next_switch(self, system: JudgedSystem, destination: int, packet: AtpPacket) -> list[SentFrame]:
        if destination != ROOT:
            return self._at_leaf(system, leaf_at(destination), packet)
        root = self._node(system, ROOT)
        if not packet.has(COLLISION):
            output = root.take(packet._replace(workers=len(self.leaves)))
            if output is None:
                return []
            packet = output.packet._replace(workers=self.workers)
        answer = system.server.take(packet)
        if answer is None:
            return []
        acknowledged = root.take(answer)
        assert acknowledged is not None, "expected the server to acknowledge a cell of the root"
        return [SentFrame(leaf_at(leaf), acknowledged.packet) for leaf in self.leaves]

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
