"""All-reduce by sets of endpoints, as slides on draft-song-ina-framework-00 state it (PIM WG, IETF 126).

Of the draft, by H. Song and T. Zhou, only the slides' text was to be had. They state that each endpoint has
an index (R1); that a tree consists of sets of endpoints, which are registered at its nodes (R2); that a
packet on its way up carries its P-set, of the endpoints whose values are in it (R3); and that a node merges
payloads based on the registered A-set (R4). On the way down, the same encoding names the destinations (R5),
and an all-reduce is a packet up and one down (R6). They state nothing about completion, overlaps, losses,
repeats, timers, or when a node forgets. So a verdict is about these rules with the following assumptions of
this project, which favour the protocol where they can:

- A packet has the number of its chunk, and a node merges packets of one chunk.
- A node merges what is disjoint, and drops a packet whose P-set overlaps what waits there.
- It sends the sum on when its P-set is the node's A-set, and forgets it then: up, or from the root down.
- A worker sends its packet again until it has the result.
- With timers, a leaf may also send on what waits there before it is complete, and forgets it then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from hotline_allreduce.judge.description import Event, JudgedSystem, SentFrame, leaf_at, node_name
from hotline_allreduce.judge.stated import StatedPacket
from hotline_allreduce.judge.tree import Reach, TreeDescription, TreeNode, TreeOutput, TreePacket


@dataclass(frozen=True)
class SetSum:
    sources: frozenset[int]
    """The P-set: workers whose values are in the total."""
    total: int


@dataclass
class SetNode(TreeNode):
    registered: frozenset[int]
    """The A-set: workers whose values come through here."""
    waiting: dict[int, SetSum] = field(default_factory=dict)
    """Merged values by chunk."""

    def take(self, packet: TreePacket) -> TreeOutput | None:
        if packet.is_result:
            return TreeOutput(Reach.CHILDREN, packet)
        addend: SetSum = packet.value
        waiting = self.waiting.get(packet.chunk, SetSum(frozenset(), 0))
        if waiting.sources & addend.sources:
            return None
        merged = SetSum(waiting.sources | addend.sources, waiting.total + addend.total)
        self.waiting[packet.chunk] = merged
        return self.send(packet.chunk) if merged.sources == self.registered else None

    def send(self, chunk: int) -> TreeOutput:
        merged = self.waiting.pop(chunk)
        if self.is_root:
            return TreeOutput(Reach.CHILDREN, TreePacket(0, chunk, merged.total, is_result=True))
        return TreeOutput(Reach.UP, TreePacket(0, chunk, merged))


class SetsDescription(TreeDescription):
    def __init__(self, leaf_of: Sequence[int] = (0, 0, 1), chunks: int = 2, has_timers: bool = False) -> None:
        super().__init__(leaf_of, chunks)
        self.has_timers = has_timers
        self.name = f"P-sets and A-sets{', with timers' if has_timers else ''}"

    def node(self, is_root: bool, children: tuple[int, ...]) -> SetNode:
        return SetNode(is_root, children, frozenset(range(self.workers) if is_root else children))

    def request(self, packet: StatedPacket) -> TreePacket:
        return TreePacket(packet.worker, packet.chunk, SetSum(frozenset({packet.worker}), packet.value))

    def events(self, system: JudgedSystem) -> Mapping[str, Event]:
        leaves = sorted(set(self.leaf_of)) if self.has_timers else []
        return {
            f"the timer of chunk {chunk} at {node_name(leaf_at(leaf))} ends": partial(
                self._send, system, leaf, chunk
            )
            for leaf in leaves
            for chunk in sorted(system.switch[node_name(leaf_at(leaf))].waiting)
        }

    def _send(self, system: JudgedSystem, leaf: int, chunk: int) -> list[SentFrame]:
        output: TreeOutput = system.switch[node_name(leaf_at(leaf))].send(chunk)
        return [self.frame_up(leaf, output.packet)]

    def has_leak(self, system: JudgedSystem) -> bool:
        return any(node.waiting for node in system.switch.values())
