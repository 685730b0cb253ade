"""Base of the descriptions of protocols: a system's first state, the steps of its parts, and the right sums.

All of a system's state is plain data: numbers, tuples, lists, sets, dicts, and dataclasses of them. Steps
change it in place; the engine gives each step a copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

SERVER = -1  # destination of a frame; others are indices of hosts, or switches of a tree
ROOT = -2  # destination of frames from a leaf; those from the root have `leaf_at`
Part = Any  # state of the switch, a host or a server, of which each description has its own types
Packet = Any  # hashable, also of each description's type


class Violation(Enum):
    WRONG = "a worker takes a wrong sum"
    DIFFERENT = "two workers take different sums"
    STALLED = "a worker waits for ever"
    LEAKED = "all workers are done, and a cell is not free"
    PARTIAL = "a worker takes a sum that it knows to be partial"


class SentFrame(NamedTuple):
    """A packet that a switch or the server sends."""

    destination: int
    packet: Packet


class Sendable(NamedTuple):
    """A packet of a host that may arrive at the switch."""

    name: str  # in schedules, such as A1: worker A's packet of chunk 1
    packet: Packet
    is_late: bool = False
    """Whether the host has the packet's answer, so that only a copy of it may arrive."""
    is_single: bool = False
    """Whether the host sends it only once, so that a second one is a copy."""


Event = Callable[[], Sequence[SentFrame] | None]
"""Changes a system, and returns the frames that are sent."""


@dataclass
class JudgedSystem:
    switch: Part
    hosts: list[Part]
    """Workers, and behind them what else sends packets to the switch."""
    server: Part = None
    happened: set[str] = field(default_factory=set)
    """Names of faults that come once, and of single packets, that have come."""
    held_up: list[tuple[str, SentFrame]] = field(default_factory=list)
    """Frames on their way to the server or between switches, with the steps that sent them."""


class Description(ABC):
    name: str  # as in titles
    workers: int
    chunks: Sequence[Any]  # hashable
    """What is added up: a worker has an addend in each."""
    has_lossy_links = True
    """Whether frames between switches may be lost, as packets of workers may."""

    has_timers = False
    """Whether events are ends of timers, so that one comes between any two packets if a worker waits long."""

    @abstractmethod
    def system(self) -> JudgedSystem: ...

    @abstractmethod
    def sendable(self, host: int, state: Part) -> Iterable[Sendable]:
        """Return the packets that a host in this state has sent, or may send."""

    @abstractmethod
    def at_switch(self, system: JudgedSystem, packet: Packet) -> Sequence[SentFrame]:
        """Process a packet of a host at its switch, and return the frames that the switch sends."""

    def at_next_switch(self, system: JudgedSystem, destination: int, packet: Packet) -> Sequence[SentFrame]:
        """Process a packet that another switch has sent; return the frames that it causes."""
        raise NotImplementedError  # protocols of one switch have no frames between switches

    def at_server(self, system: JudgedSystem, packet: Packet) -> Sequence[SentFrame]:
        """Process a packet at the server, and return the frames to hosts that it causes."""
        raise NotImplementedError  # some protocols have no server

    @abstractmethod
    def at_host(self, system: JudgedSystem, host: int, packet: Packet) -> None: ...

    def to_workers(self, packet: Packet) -> list[SentFrame]:
        return [SentFrame(worker, packet) for worker in range(self.workers)]

    def events(self, system: JudgedSystem) -> Mapping[str, Event]:
        """Return what may happen without a packet, such as the end of a timer, by name."""
        return {}

    def restarts(self, system: JudgedSystem) -> Mapping[str, Event]:
        """Return how switches may lose their state, by name. One of them does so in a schedule."""
        return {"the switch restarts": partial(self.restart_switch, system)}

    def restart_switch(self, system: JudgedSystem) -> None:
        system.switch = self.system().switch

    @abstractmethod
    def is_done(self, host: Part) -> bool: ...

    def has_leak(self, system: JudgedSystem) -> bool:
        """Return whether memory of the switch is not free although all hosts are done."""
        return False

    def results(self, host: Part) -> Mapping[Any, int]:
        """Return the sums that a host has taken, by chunk."""
        return {}

    def addend(self, worker: int, chunk: Any) -> int:
        # In two bits each, so that a sum shows its addends, and which of them it has twice.
        return 1 << 2 * (worker * len(self.chunks) + self.chunks.index(chunk))

    def expected_sum(self, chunk: Any) -> int:
        return sum(self.addend(worker, chunk) for worker in range(self.workers))

    def violations(self, system: JudgedSystem) -> Iterator[Violation]:
        """Yield the violations that a state shows by itself."""
        sums = {result for host in system.hosts for result in self.results(host).items()}
        if any(total != self.expected_sum(chunk) for chunk, total in sums):
            yield Violation.WRONG
        if len(sums) > len(dict(sums)):
            yield Violation.DIFFERENT


def leaf_at(index: int) -> int:
    """Return the destination of frames that the root sends to a leaf; also its inverse."""
    return ROOT - 1 - index


def node_name(destination: int) -> str:
    if destination == SERVER:
        return "the server"
    return "the root" if destination == ROOT else f"leaf {leaf_at(destination) + 1}"


def death_of(worker: int) -> str:
    return f"{letter(worker)} dies"


def letter(worker: int) -> str:
    return chr(ord("A") + worker)
