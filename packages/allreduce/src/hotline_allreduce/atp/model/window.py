"""A plain model of ATP's worker, which the compiled worker is tested against.

It covers in-ATP/ATP's `client/p4ml_manager.cc` (ddca27f) for one thread: packets are sent while they are at
most a window ahead of the first gap in the acknowledgements. An acknowledgement after a gap makes the
worker resend the packets of the gap, once; a timeout makes it resend the first of them. After each window of
packets it is halved if its last acknowledgement reports congestion; otherwise it grows by 1,500 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hotline_allreduce.atp.packet import COLLISION, ECN, OVERFLOW, RESEND, AtpPacket

FRAME_BYTES, GROWTH_BYTES = 308, 1_500
"""Size of a frame in the published code, and growth of a window."""


@dataclass
class AtpWindowModel:
    key: int  # the tensor's number
    total: int  # number of packets of the tensor
    places: list[int]
    """Cell of each place in the window, which collisions change; as many as the largest window has places."""
    is_adaptive: bool = False
    """Whether the window's size changes; in the published code it is constant."""
    window: int = 0
    last_in_order: int = 0
    """The last sequence number before the first gap in the acknowledgements."""
    last_sent: int = 0  # the last sequence number sent
    last_resent: int = 0  # the last sequence number that was resent because of a gap
    results: dict[int, tuple[int, ...]] = field(default_factory=dict)
    floats: set[int] = field(default_factory=set)  # sequence numbers that are sent as floats
    initial_cells: set[int] = field(default_factory=set)
    end_of_window: int = 0  # the sequence number after which the window's size changes

    def __post_init__(self) -> None:
        self.window = self.window or len(self.places)
        self.end_of_window = self.end_of_window or self.window
        self.initial_cells = self.initial_cells or set(self.places)

    @property
    def is_done(self) -> bool:
        return self.last_in_order == self.total

    def cell(self, sequence: int) -> int:
        return self.places[(sequence - 1) % len(self.places)]

    def send(self) -> list[int]:
        first, self.last_sent = (
            self.last_sent + 1,
            max(self.last_sent, min(self.last_in_order + self.window, self.total)),
        )
        return list(range(first, self.last_sent + 1))

    def take(self, packet: AtpPacket) -> list[int]:
        """Take an acknowledgement or a request for floats; return the sequence numbers to resend."""
        sequence = packet.sequence
        if packet.key != self.key or not 0 < sequence <= self.total:
            return []
        if packet.has(OVERFLOW) and not packet.has(RESEND):
            self.floats.add(sequence)
            return []
        if sequence in self.results:
            return []
        # An initial cell is not adopted, as it may be another place's.
        if packet.has(COLLISION) and packet.length not in self.initial_cells:
            self.places[(sequence - 1) % len(self.places)] = packet.length
        self.results[sequence] = packet.values
        while self.last_in_order + 1 in self.results:
            self.last_in_order += 1
        if self.is_adaptive and sequence == self.end_of_window:
            self.window = next_window(self.window, packet.has(ECN), len(self.places))
            self.end_of_window += self.window
        return self._sequences_in_gap()

    def _sequences_in_gap(self) -> list[int]:
        out_of_order = [sequence for sequence in self.results if sequence > self.last_in_order]
        if not out_of_order or self.last_in_order < self.last_resent:
            return []
        first, self.last_resent = self.last_in_order + 1, min(out_of_order) - 1
        return list(range(first, self.last_resent + 1))


def next_window(window: int, is_congested: bool, max_window: int) -> int:
    window_bytes = window * FRAME_BYTES // 2 if is_congested else window * FRAME_BYTES + GROWTH_BYTES
    return max(1, min(window_bytes // FRAME_BYTES, max_window))
