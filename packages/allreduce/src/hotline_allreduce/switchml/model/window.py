"""A plain model of a SwitchML worker's window, which the compiled worker is tested against.

An all-reduce has `total` packets, of which `batch` are in flight. The result of packet n triggers packet
n + batch. So a worker reuses a slot only after it has the result of its previous packet in that slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hotline_allreduce.switchml.packet import SwitchMLPacket


def slot_and_set(chunk: int, window: int, base: int = 0) -> tuple[int, int]:
    """Return slot and set of a chunk: slots from `base` on in turn, then the same slots in the other set."""
    turn = chunk % (2 * window)
    return base + turn % window, turn // window


@dataclass
class SwitchMLWindowModel:
    """The window of one worker in one all-reduce, whose chunks are numbered from `first`."""

    first: int
    total: int
    window: int
    base: int = 0  # first slot
    batch: int = 0
    """Packets in flight, up to `window`; 0: the maximum. For floats, the first batch has exponents only."""
    results: dict[int, SwitchMLPacket] = field(default_factory=dict)
    outstanding: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.batch = self.batch or min(self.window, self.total)
        self.outstanding = set(range(self.batch))

    @property
    def is_done(self) -> bool:
        return len(self.results) == self.total

    def slot_and_set(self, number: int) -> tuple[int, int]:
        return slot_and_set(self.first + number, self.window, self.base)

    def take(self, result: SwitchMLPacket) -> bool:
        number = result.chunk - self.first
        if number not in self.outstanding:
            return False
        self.results[number] = result
        self.outstanding.remove(number)
        if number + self.batch < self.total:
            self.outstanding.add(number + self.batch)
        return True
