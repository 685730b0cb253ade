"""Base of the descriptions of protocols: nodes, hosts, the packets that they send, and the right sums.

Nodes and hosts are plain data: numbers, tuples, lists, sets, dicts, and dataclasses of them. A step of the
search changes copies of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

SWITCH, SERVER = 0, 1  # indices of nodes
Node = Any  # of a description, such as a model of a switch
Host = Any
Packet = Any  # hashable


class SentFrame(NamedTuple):
    """A packet on its way to a node, or to a worker."""

    is_to_worker: bool
    destination: int  # index of a node, or number of a worker
    packet: Packet


class Sendable(NamedTuple):
    """A packet of a worker that may arrive at the switch."""

    name: str  # in schedules, such as A1: worker A's packet of chunk 1
    packet: Packet
    is_late: bool = False
    """Whether its worker has the packet's result already."""
    is_resent: bool = False
    """Whether it says that it is a retransmission. Where packets do not say so, all copies are alike."""
    is_first_copy: bool = False
    """Whether only its first transmission is like this, which arrives once unless the network copies it."""


class Description(ABC):
    name: ClassVar[str]
    workers: int
    check: bool  # whether late packets are found by their numbers, which is not published

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """Return the nodes in their first state: the switch, and a server if the protocol has one."""

    @abstractmethod
    def host(self, worker: int) -> Host: ...

    @abstractmethod
    def sendable(self, worker: int, host: Host) -> Iterable[Sendable]: ...

    @abstractmethod
    def at_node(self, nodes: Sequence[Node], index: int, packet: Packet) -> Iterable[SentFrame]:
        """Process a packet at a node, whose state changes; return the frames that it sends."""

    @abstractmethod
    def at_host(self, host: Host, packet: Packet) -> None: ...

    @abstractmethod
    def results(self, host: Host) -> Mapping[Any, int]:
        """Return the sums that a worker has taken, by chunk."""

    @abstractmethod
    def expected_sum(self, chunk: Any) -> int: ...

    def wrong_chunks(self, nodes: Sequence[Node], hosts: Sequence[Host]) -> set[Any]:
        """Return the chunks whose sums are wrong: by default, of which a worker has another sum."""
        return {
            chunk
            for host in hosts
            for chunk, total in self.results(host).items()
            if total != self.expected_sum(chunk)
        }

    @abstractmethod
    def is_done(self, host: Host) -> bool: ...

    def has_leak(self, nodes: Sequence[Node]) -> bool:
        """Return whether memory of the switch is not free although all workers are done."""
        return False

    @abstractmethod
    def node_lines(self, nodes: Sequence[Node]) -> Iterator[str]:
        """Yield lines of text about the state of the nodes, for pages."""

    @abstractmethod
    def addends_of(self, total: int) -> str:
        """Return the addends of a sum, by the names of their packets, for pages."""

    @abstractmethod
    def host_line(self, host: Host) -> str:
        """Return what a worker waits for, for pages; the engine adds its sums."""


def letter(worker: int) -> str:
    return chr(ord("A") + worker)
