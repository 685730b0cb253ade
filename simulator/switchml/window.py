"""A SwitchML worker's window as a small plain model, that the compiled worker is held against.

An all-reduce is `total` packets, of which a batch is sent at once. The result of a packet has the next one
sent, a batch behind it: so a slot is used again only by who knows the result of its last turn but one."""

from __future__ import annotations

from dataclasses import dataclass, field

from hosts.switchml.packet import SwitchMLPacket


def place(chunk: int, window: int, base: int = 0) -> tuple[int, int]:
    """Slot and set of a chunk by its number: slots from `base` on in turn, then the same in the other set."""
    at = chunk % (2 * window)
    return base + at % window, at // window


@dataclass
class Window:
    """One worker's, for the chunks of one all-reduce, numbered from `first` on."""

    first: int
    total: int
    window: int
    base: int = 0
    batch: int = 0
    """Packets that are on the way at once: the chunks, up to a window. Of integers they are all packets; of
    floats there is a batch more, which has exponents only."""
    results: dict[int, SwitchMLPacket] = field(default_factory=dict)
    """Packet number, from 0 on -> what was taken for its result."""
    outstanding: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.batch = self.batch or min(self.window, self.total)
        self.outstanding = set(range(self.batch))

    @property
    def is_done(self) -> bool:
        """All results are there."""
        return len(self.results) == self.total

    def place(self, number: int) -> tuple[int, int]:
        """Slot and set of a packet."""
        return place(self.first + number, self.window, self.base)

    def take(self, result: SwitchMLPacket) -> bool:
        """A result has come; whether it is one that is waited for."""
        number = result.chunk - self.first
        if number not in self.outstanding:
            return False
        self.results[number] = result
        self.outstanding.remove(number)
        if number + self.batch < self.total:
            self.outstanding.add(number + self.batch)
        return True
