"""Plain models of SwitchML's published rules, which the P4 program and compiled workers are tested against.

The switch's model covers what p4lang/p4app-switchML (b5c74a0) does in `bitmap_checker`, `workers_counter`,
`processor`, `exponents` and, by the entries of its controller, in `next_step_selector`:

- A packet sets its worker's bit in the bitmap of its pool set (of two), and clears it in the other's.
- If no bit was set, the packet is the first, and writes its values. If its worker's bit was set, it is a
  retransmission, and only reads.
- The count of a pool entry goes from the number of workers down to 0, and begins again there. Retransmissions
  do not count. So bitmap and count store the same fact twice, and can disagree.
- The last packet is answered to all workers. A retransmission is answered to its sender if the count is 0,
  and otherwise not at all.

Chunk numbers are not compared, so a late copy is taken for a new packet as soon as its worker's bit is clear.
Two settings are additions, and off by default: `check` compares chunk numbers, and `slot_timeout_us`
completes an entry without late workers.

The window's model: an all-reduce has `total` packets, of which `batch` are in flight. The result of packet n
triggers packet n + batch. So a worker reuses a slot only after it has the result of its previous packet in
that slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hotline_allreduce.switchml.packet import NO_VALUES, SIZE, SwitchMLPacket

MASK = 2**32 - 1  # largest 32-bit word
SIGN_BIT = 2**31  # set in differences of chunk numbers that are negative


class SwitchAnswer(NamedTuple):
    is_multicast: bool  # whether the answer goes to all workers, or only to the sender of the request
    packet: SwitchMLPacket


@dataclass
class PoolEntry:
    bitmap: int = 0
    missing_workers: int = 0
    """Number of workers whose packets are missing; also 0 before the first packet."""
    values: tuple[int, ...] = NO_VALUES
    exponents: tuple[int, int] = (0, 0)
    number: int = 0  # number of the latest chunk plus 1; 0 before the first packet; set only with `check`
    begun_us: int = 0  # when the first packet arrived
    cut: int | None = None  # the cut bits of design `exact`; None for packets without them


@dataclass
class SwitchMLSwitchModel:
    workers: int
    slots: int
    check: bool = False
    slot_timeout_us: int = 0
    """Age of an entry after which a retransmission completes it without the missing workers; 0 means never.
    The number of missing workers is the second exponent of the answer. Requires `check`."""
    sets: tuple[list[PoolEntry], list[PoolEntry]] = field(init=False)

    def __post_init__(self) -> None:
        if self.slot_timeout_us and not self.check:
            raise ValueError(
                f"slot_timeout_us ({self.slot_timeout_us}) needs check, which identifies late workers"
            )
        self.sets = ([PoolEntry() for _ in range(self.slots)], [PoolEntry() for _ in range(self.slots)])

    def take(self, worker: int, packet: SwitchMLPacket, now_us: int = 0) -> SwitchAnswer | None:
        if packet.size != SIZE or packet.slot >= self.slots:
            return None
        entry, other_entry = self.sets[packet.set][packet.slot], self.sets[1 - packet.set][packet.slot]
        is_new_chunk = False
        if self.check:
            chunks_ahead = (packet.chunk + 1 - entry.number) & MASK
            if chunks_ahead >= SIGN_BIT:
                return None
            is_new_chunk = chunks_ahead > 0
            entry.number = (packet.chunk + 1) & MASK

        bit = 1 << worker
        bits_before = 0 if is_new_chunk else entry.bitmap
        entry.bitmap = bits_before | bit
        if not self.check:
            other_entry.bitmap &= ~bit
        missing_before = 0 if is_new_chunk else entry.missing_workers
        # With `check`, a full entry may have been completed without this worker.
        is_retransmit = bool(bits_before & bit) or (self.check and bits_before != 0 and missing_before == 0)

        self._add(entry, packet, bits_before, is_retransmit, now_us)
        if is_retransmit and missing_before and self._is_overdue(entry, now_us):
            entry.exponents = (entry.exponents[0], missing_before)
            entry.missing_workers = 0
            return SwitchAnswer(is_multicast=True, packet=_with_sums(entry, packet))
        if not is_retransmit:
            entry.missing_workers = (missing_before or self.workers) - 1  # 0 begins again
        # A single worker's packet is the first and the last.
        is_last = not is_retransmit and (missing_before == 1 or self.workers == 1)
        if is_last or (is_retransmit and missing_before == 0):
            return SwitchAnswer(is_multicast=is_last, packet=_with_sums(entry, packet))
        return None

    def _add(
        self, entry: PoolEntry, packet: SwitchMLPacket, bits_before: int, is_retransmit: bool, now_us: int
    ) -> None:
        if bits_before == 0:
            entry.values, entry.exponents, entry.cut = packet.values, packet.exponents, packet.cut
            entry.begun_us = now_us
        elif not is_retransmit:
            sums = zip(entry.values, packet.values, strict=True)
            entry.values = tuple((total + value) & MASK for total, value in sums)
            first_exponents, second_exponents = zip(entry.exponents, packet.exponents, strict=True)
            entry.exponents = max(first_exponents), max(second_exponents)
            if packet.cut is not None:
                entry.cut = (entry.cut or 0) | packet.cut

    def _is_overdue(self, entry: PoolEntry, now_us: int) -> bool:
        return bool(self.slot_timeout_us) and now_us - entry.begun_us >= self.slot_timeout_us


def _with_sums(entry: PoolEntry, packet: SwitchMLPacket) -> SwitchMLPacket:
    return packet._replace(values=entry.values, exponents=entry.exponents, cut=entry.cut)


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
