"""SwitchML's published rules, as a small plain model that the P4 program is held against.

What p4lang/p4app-switchML (b5c74a0) does in `bitmap_checker`, `workers_counter`, `processor`, `exponents`
and, by the entries of its controller, in `next_step_selector`:

- A packet sets its worker's bit in its set, and clears it in the other one.
- No bit was set: it is the first, and writes its values. Its own was set: it comes again, and only reads.
- The count of a pool entry goes from the number of workers down to 0, and begins again there. Only what does
  not come again counts. So bitmap and count are two memories of the same thing, and can disagree.
- The last is answered to all. What comes again is answered to its sender where the count is 0, and else not.

Nobody compares the number of the chunk, so a late copy is taken for new as soon as its worker's bit is clear.
Two settings are ours, and off: `check` compares, and `patience` goes on without those who are late."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hosts.switchml.packet import NO_VALUES, SIZE, SwitchMLPacket

MASK = 2**32 - 1
HALF = 2**31


class Answer(NamedTuple):
    """What the switch sends."""

    is_multicast: bool
    """To all workers, or else to the one that has asked."""
    packet: SwitchMLPacket


@dataclass
class Entry:
    """One of the pool: a slot in a set."""

    bitmap: int = 0
    missing: int = 0
    """Workers until it is full; 0 before the first, too."""
    values: tuple[int, ...] = NO_VALUES
    exponents: tuple[int, int] = (0, 0)
    number: int = 0
    """With `check`: of its chunk, from 1 on."""
    since: int = 0
    """With `patience`: when its first came, µs."""


@dataclass
class Switch:
    """Of one job; its workers are 0 to `workers` - 1."""

    workers: int
    slots: int
    check: bool = False
    """A late copy changes nothing: entries know the number of their chunk."""
    patience_us: int = 0
    """What comes again so long after the first completes its entry for everybody, without those who are
    missing; their number is the second exponent of what is answered. 0 is never. It needs `check`."""
    sets: tuple[list[Entry], list[Entry]] = field(init=False)

    def __post_init__(self) -> None:
        if self.patience_us and not self.check:
            raise ValueError(f"patience_us ({self.patience_us}) needs check, by which who is late is told")
        self.sets = ([Entry() for _ in range(self.slots)], [Entry() for _ in range(self.slots)])

    def take(self, worker: int, packet: SwitchMLPacket, now_us: int = 0) -> Answer | None:
        """A packet of a worker has come; what is sent, if anything."""
        if packet.size != SIZE or packet.slot >= self.slots:
            return None
        entry, other = self.sets[packet.set][packet.slot], self.sets[1 - packet.set][packet.slot]
        is_new_chunk = False
        if self.check:
            ahead = (packet.chunk + 1 - entry.number) & MASK
            if ahead >= HALF:
                return None
            is_new_chunk = ahead > 0
            entry.number = (packet.chunk + 1) & MASK

        bit = 1 << worker
        before = 0 if is_new_chunk else entry.bitmap
        entry.bitmap = before | bit
        if not self.check:
            other.bitmap &= ~bit
        was_missing = 0 if is_new_chunk else entry.missing
        # With the check, an entry that is full was completed without a worker that only comes now.
        comes_again = bool(before & bit) or (self.check and before != 0 and was_missing == 0)

        self._add(entry, packet, before, comes_again, now_us)
        if comes_again and was_missing and self._is_overdue(entry, now_us):
            entry.exponents = (entry.exponents[0], was_missing)
            entry.missing = 0
            return Answer(True, _read(entry, packet))
        if not comes_again:
            entry.missing = (was_missing or self.workers) - 1
        is_last = not comes_again and (was_missing == 1 or self.workers == 1)
        if is_last or (comes_again and was_missing == 0):
            return Answer(is_last, _read(entry, packet))
        return None

    def _add(self, entry: Entry, packet: SwitchMLPacket, before: int, comes_again: bool, now_us: int) -> None:
        """Values and exponents: the first writes, others add, and what comes again does neither."""
        if before == 0:
            entry.values, entry.exponents = packet.values, packet.exponents
            entry.since = now_us
        elif not comes_again:
            sums = zip(entry.values, packet.values, strict=True)
            entry.values = tuple((held + value) & MASK for held, value in sums)
            first, second = zip(entry.exponents, packet.exponents, strict=True)
            entry.exponents = max(first), max(second)

    def _is_overdue(self, entry: Entry, now_us: int) -> bool:
        return bool(self.patience_us) and now_us - entry.since >= self.patience_us


def _read(entry: Entry, packet: SwitchMLPacket) -> SwitchMLPacket:
    """The packet with what its entry holds; chunk and job stay those of whoever has sent it."""
    return packet._replace(values=entry.values, exponents=entry.exponents)
