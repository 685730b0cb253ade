"""The rules of Trio-ML, Serene and OLAF that their abstracts state; their papers were not to be had.

What an abstract leaves open is assumed here, in favour of the protocol. So a verdict is about the stated rule
with these assumptions, and not about the paper's system.

- Trio-ML (SIGCOMM 2022): *in-network straggler mitigation using timer threads*. Assumed: the timer of a block
  sends its partial sum to all workers, who know that it is partial. A block has the set of its sources. When
  its sum has been sent, its memory is free.
- Serene (IJNM 2025): *hybrid synchronization that can change dynamically*, and consistently. Assumed: the
  switch answers all workers when all have come, or in the other mode each of them with the sum so far. The
  mode changes between chunks. The switch remembers all chunks with the sets of their sources.
- OLAF (arXiv 2507.05876): *a queueing mechanism that opportunistically combines compatible updates*, for
  asynchronous training. Assumed: a worker's newer update replaces its older one that waits alone; updates of
  several workers are added. Nothing is answered, and a lost update is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from hotline_allreduce.judge.description import (
    SERVER,
    Description,
    Event,
    JudgedSystem,
    Sendable,
    SentFrame,
    Violation,
    letter,
)

Sums = dict[int, int]
"""A worker: the sums that it has taken, by chunk."""


class StatedPacket(NamedTuple):
    worker: int
    chunk: int
    value: int  # an addend, or in an answer a sum


@dataclass
class StatedBlock:
    """A chunk in the switch, or what waits in a queue."""

    sources: dict[int, int] = field(default_factory=dict)
    """Newest chunk of each worker that is in the sum."""
    total: int = 0

    def add(self, packet: StatedPacket) -> None:
        self.sources[packet.worker] = max(packet.chunk, self.sources.get(packet.worker, 0))
        self.total += packet.value


class SumsDescription(Description):
    """Workers that wait for the sum of each chunk before they send the next."""

    def __init__(self, workers: int = 2, chunks: int = 2) -> None:
        self.workers, self.chunks = workers, range(chunks)

    def sendable(self, host: int, state: Sums) -> Iterator[Sendable]:
        for chunk in self.chunks[: len(state) + 1]:
            packet = StatedPacket(host, chunk, self.addend(host, chunk))
            yield Sendable(f"{letter(host)}{chunk}", packet, is_late=chunk in state)

    def at_host(self, system: JudgedSystem, host: int, packet: StatedPacket) -> None:
        if packet.chunk == len(system.hosts[host]):
            system.hosts[host][packet.chunk] = packet.value

    def results(self, host: Sums) -> Mapping[Any, int]:
        return host

    def is_done(self, host: Sums) -> bool:
        return len(host) == len(self.chunks)


class PartialSumsDescription(SumsDescription):
    """Workers that also take partial sums, and know it."""

    def violations(self, system: JudgedSystem) -> Iterator[Violation]:
        sums = [result for host in system.hosts for result in host.items()]
        has_only_addends = all(total & ~self.expected_sum(chunk) == 0 for chunk, total in sums)
        for violation in super().violations(system):
            is_partial = violation is Violation.WRONG and has_only_addends
            yield Violation.PARTIAL if is_partial else violation


class TrioDescription(PartialSumsDescription):
    name = "Trio-ML's rule"

    def system(self) -> JudgedSystem:
        return JudgedSystem(dict[int, StatedBlock](), [Sums() for _ in range(self.workers)])

    def at_switch(self, system: JudgedSystem, packet: StatedPacket) -> list[SentFrame]:
        block = system.switch.setdefault(packet.chunk, StatedBlock())
        if packet.worker not in block.sources:
            block.add(packet)
        return self._send(system, packet.chunk) if len(block.sources) == self.workers else []

    def _send(self, system: JudgedSystem, chunk: int) -> list[SentFrame]:
        return self.to_workers(StatedPacket(SERVER, chunk, system.switch.pop(chunk).total))

    def events(self, system: JudgedSystem) -> dict[str, Event]:
        return {
            f"the timer of block {chunk} ends": partial(self._send, system, chunk)
            for chunk in sorted(system.switch)
        }


@dataclass
class SereneSwitch:
    is_synchronous: bool = True
    blocks: dict[int, StatedBlock] = field(default_factory=dict)


class SereneDescription(PartialSumsDescription):
    name = "Serene's rule"

    def system(self) -> JudgedSystem:
        return JudgedSystem(SereneSwitch(), [Sums() for _ in range(self.workers)])

    def at_switch(self, system: JudgedSystem, packet: StatedPacket) -> list[SentFrame]:
        block = system.switch.blocks.setdefault(packet.chunk, StatedBlock())
        is_new, was_complete = packet.worker not in block.sources, len(block.sources) == self.workers
        if is_new:
            block.add(packet)
        answer = StatedPacket(SERVER, packet.chunk, block.total)
        if was_complete or not system.switch.is_synchronous:
            return [SentFrame(packet.worker, answer)]
        return self.to_workers(answer) if len(block.sources) == self.workers else []

    def events(self, system: JudgedSystem) -> dict[str, Event]:
        switch: SereneSwitch = system.switch
        is_between_chunks = all(len(block.sources) == self.workers for block in switch.blocks.values())
        if not (switch.is_synchronous and is_between_chunks):
            return {}
        return {"the mode becomes asynchronous": partial(setattr, switch, "is_synchronous", False)}


class OlafDescription(Description):
    name = "OLAF's rule"

    def __init__(self, workers: int = 2, chunks: int = 2) -> None:
        self.workers, self.chunks = workers, range(chunks)

    def system(self) -> JudgedSystem:
        return JudgedSystem(StatedBlock(), [None] * self.workers, StatedBlock())

    def sendable(self, host: int, state: None) -> Iterator[Sendable]:
        for chunk in self.chunks:
            packet = StatedPacket(host, chunk, self.addend(host, chunk))
            yield Sendable(f"{letter(host)}{chunk}", packet, is_single=True)

    def at_switch(self, system: JudgedSystem, packet: StatedPacket) -> list[SentFrame]:
        queue: StatedBlock = system.switch
        if set(queue.sources) == {packet.worker}:
            if packet.chunk > queue.sources[packet.worker]:
                system.switch = StatedBlock({packet.worker: packet.chunk}, packet.value)
        else:
            queue.add(packet)
        return []

    def events(self, system: JudgedSystem) -> dict[str, Event]:
        return {"the queue sends an update": partial(self._send, system)} if system.switch.sources else {}

    def _send(self, system: JudgedSystem) -> list[SentFrame]:
        update, system.switch = StatedPacket(SERVER, 0, system.switch.total), StatedBlock()
        return [SentFrame(SERVER, update)]

    def at_server(self, system: JudgedSystem, packet: StatedPacket) -> list[SentFrame]:
        system.server.total += packet.value
        return []

    def at_host(self, system: JudgedSystem, host: int, packet: StatedPacket) -> None:
        raise AssertionError("nothing is answered")

    def is_done(self, host: None) -> bool:
        return True

    def violations(self, system: JudgedSystem) -> Iterator[Violation]:
        """Yield WRONG if the server has added an update more than once."""
        every_update_once = sum(map(self.expected_sum, self.chunks))
        if system.server.total & ~every_update_once:
            yield Violation.WRONG
