"""All-reduce in a tree of two leaf switches below a root: a naive one, SwitchML++, and one with checks.

- `NaiveNode` has the rule that decision 29 (docs/decisions/networks.md) does not choose: each level remembers
  the same numbers of the same callers, and drops what it has seen.
- `PlusPlusNode` has the rules of SwitchML++ (G. van der Galien, master thesis, VU/UvA, 2023) as its P4 code
  (gianni1998/SwitchMLpp, 5dd0693) has them in `overseer`, `worker_counter`, `aggregator` and `ingress`. Its
  thesis leaves frames that are lost between switches outside of its scope (3.6, 6.2), so
  `PlusPlusDescription` has a variant without such losses. Groups, joins and changes of the root are left out.
  The rank that a switch writes into its packets is assumed to be no other sender's.
- `CheckedNode` is a rule of this project: SwitchML's check of chunk numbers, with which a leaf sends its sum
  up again when a worker repeats, and the root answers it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from hotline_allreduce.judge.description import (
    ROOT,
    Event,
    JudgedSystem,
    SentFrame,
    leaf_at,
    node_name,
)
from hotline_allreduce.judge.stated import StatedPacket, Sums, SumsDescription

BANKS = 2  # of a switch of SwitchML++, used by odd and even chunks


class Reach(Enum):
    """Where a switch of a tree sends a packet."""

    UP = "to its parent"
    CHILDREN = "to all its children"
    SENDER = "to the child that has sent the packet"


class TreePacket(NamedTuple):
    sender: int  # a worker or a switch
    chunk: int
    value: Any
    is_result: bool = False  # whether it comes from the parent


class TreeOutput(NamedTuple):
    reach: Reach
    packet: TreePacket


@dataclass
class TreeNode(ABC):
    """A leaf or the root, by the rules of a protocol."""

    is_root: bool
    children: tuple[int, ...]
    """Senders of what is added up here."""

    @abstractmethod
    def take(self, packet: TreePacket) -> TreeOutput | None:
        """Return what the switch sends; None if it drops the packet."""


class TreeDescription(SumsDescription):
    def __init__(self, leaf_of: Sequence[int] = (0, 1), chunks: int = 2) -> None:
        self.workers, self.leaf_of, self.chunks = len(leaf_of), tuple(leaf_of), range(chunks)

    @abstractmethod
    def node(self, is_root: bool, children: tuple[int, ...]) -> TreeNode: ...

    def system(self) -> JudgedSystem:
        leaves = sorted(set(self.leaf_of))
        nodes = {
            node_name(leaf_at(leaf)): self.node(
                False, tuple(worker for worker in range(self.workers) if self.leaf_of[worker] == leaf)
            )
            for leaf in leaves
        }
        nodes[node_name(ROOT)] = self.node(True, tuple(leaves))
        return JudgedSystem(nodes, [Sums() for _ in range(self.workers)])

    def request(self, packet: StatedPacket) -> TreePacket:
        return TreePacket(packet.worker, packet.chunk, packet.value)

    def at_switch(self, system: JudgedSystem, packet: StatedPacket) -> list[SentFrame]:
        return self.at_next_switch(system, leaf_at(self.leaf_of[packet.worker]), self.request(packet))

    def at_next_switch(self, system: JudgedSystem, destination: int, packet: TreePacket) -> list[SentFrame]:
        node: TreeNode = system.switch[node_name(destination)]
        output = node.take(packet)
        if output is None:
            return []
        if output.reach is Reach.UP:
            return [self.frame_up(leaf_at(destination), output.packet)]
        children = node.children if output.reach is Reach.CHILDREN else (packet.sender,)
        return [SentFrame(leaf_at(child) if node.is_root else child, output.packet) for child in children]

    def frame_up(self, leaf: int, packet: TreePacket) -> SentFrame:
        return SentFrame(ROOT, packet._replace(sender=leaf))

    def restarts(self, system: JudgedSystem) -> Mapping[str, Event]:
        return {f"{name} restarts": partial(self._restart, system, name) for name in system.switch}

    def _restart(self, system: JudgedSystem, name: str) -> None:
        system.switch[name] = self.system().switch[name]


# -- a number that each level remembers


@dataclass
class NaiveNode(TreeNode):
    drops_repeats: bool
    seen: set[tuple[int, int]] = field(default_factory=set)
    """Caller, and number."""
    totals: dict[int, int] = field(default_factory=dict)

    def take(self, packet: TreePacket) -> TreeOutput | None:
        if packet.is_result:
            return TreeOutput(Reach.CHILDREN, packet)
        place = packet.sender, packet.chunk
        if place in self.seen and (self.drops_repeats or self.is_root):
            return None
        self.seen.add(place)
        if not self.is_root:
            return TreeOutput(Reach.UP, packet)
        self.totals[packet.chunk] = self.totals.get(packet.chunk, 0) + packet.value
        if not all((child, packet.chunk) in self.seen for child in self.children):
            return None
        result = packet._replace(value=self.totals[packet.chunk], is_result=True)
        return TreeOutput(Reach.CHILDREN, result)


class NaiveTreeDescription(TreeDescription):
    """One worker at each leaf, so that what a leaf passes on is its sum."""

    def __init__(self, drops_repeats: bool = True, chunks: int = 2) -> None:
        super().__init__(chunks=chunks)
        self.drops_repeats = drops_repeats
        self.name = f"a naive tree whose leaves {'drop' if drops_repeats else 'pass on'} what they have seen"

    def node(self, is_root: bool, children: tuple[int, ...]) -> NaiveNode:
        return NaiveNode(is_root, children, self.drops_repeats)


# -- SwitchML++


@dataclass
class PlusPlusBank:
    count: int = 0
    value: int = 0


@dataclass
class PlusPlusNode(TreeNode):
    last: dict[int, int] = field(default_factory=dict)
    """Latest chunk of each child, plus 1."""
    banks: list[PlusPlusBank] = field(default_factory=lambda: [PlusPlusBank() for _ in range(BANKS)])

    def take(self, packet: TreePacket) -> TreeOutput | None:
        bank, index = self.banks[packet.chunk % BANKS], packet.chunk + 1
        last = self.last.get(packet.sender, 0)
        is_seen = not packet.is_result and last in (index, index + 1)
        if not packet.is_result and not is_seen:
            self.last[packet.sender] = index
        if not is_seen:
            bank.count += 1
            if bank.count >= len(self.children) and (self.is_root or packet.is_result):
                bank.count = 0
            is_first = packet.is_result or bank.count == 1
            bank.value = packet.value + (0 if is_first else bank.value)
        output = packet._replace(value=bank.value)
        if packet.is_result or (bank.count == 0 and not is_seen):
            return TreeOutput(Reach.CHILDREN, output._replace(is_result=True))
        if bank.count == 0:
            return TreeOutput(Reach.SENDER, output._replace(sender=ROOT))  # which leaves take for a request
        is_sum = bank.count == len(self.children) and not self.is_root
        return TreeOutput(Reach.UP, output) if is_sum and not is_seen else None


class PlusPlusDescription(TreeDescription):
    def __init__(
        self, leaf_of: Sequence[int] = (0, 1), chunks: int = 3, has_lossy_links: bool = True
    ) -> None:
        super().__init__(leaf_of, chunks)
        self.has_lossy_links = has_lossy_links
        self.name = f"SwitchML++{'' if has_lossy_links else ', no frame lost between switches'}"

    def node(self, is_root: bool, children: tuple[int, ...]) -> PlusPlusNode:
        return PlusPlusNode(is_root, children)


# -- a tree with checks


@dataclass
class CheckedBlock:
    chunk: int = -1  # none yet
    sources: set[int] = field(default_factory=set)
    total: int = 0
    result: int | None = None


@dataclass
class CheckedNode(TreeNode):
    blocks: list[CheckedBlock] = field(default_factory=lambda: [CheckedBlock() for _ in range(BANKS)])

    def take(self, packet: TreePacket) -> TreeOutput | None:
        block = self.blocks[packet.chunk % BANKS]
        if packet.is_result:
            if block.chunk != packet.chunk:
                return None
            block.result = packet.value
            return TreeOutput(Reach.CHILDREN, packet)
        if packet.chunk < block.chunk:
            return None
        if packet.chunk > block.chunk:
            block = self.blocks[packet.chunk % BANKS] = CheckedBlock(packet.chunk)
        if block.result is not None:
            return TreeOutput(Reach.SENDER, packet._replace(value=block.result, is_result=True))
        block.total += 0 if packet.sender in block.sources else packet.value
        block.sources.add(packet.sender)
        if len(block.sources) < len(self.children):
            return None
        if not self.is_root:
            return TreeOutput(Reach.UP, packet._replace(value=block.total))
        block.result = block.total
        return TreeOutput(Reach.CHILDREN, packet._replace(value=block.result, is_result=True))


class CheckedTreeDescription(TreeDescription):
    name = "a tree with checks"

    def node(self, is_root: bool, children: tuple[int, ...]) -> CheckedNode:
        return CheckedNode(is_root, children)
