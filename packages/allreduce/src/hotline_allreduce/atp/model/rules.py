"""Plain models of ATP by its published rules, which the P4 program and compiled agents are tested against.

The switch. Its model covers what in-ATP/ATP (ddca27f) does in `p4src/p4ml.p4`, in one pass instead of two:

- A first copy claims its cell if the cell has no owner or its own job and sequence number. Otherwise it
  goes on to the server, marked as collided but otherwise unchanged.
- A worker's bit is set in the cell's bitmap. If it was not set, the cell counts the packet and adds its
  values; those of the first packet overwrite the old ones. If the count is then the number of workers, the
  sums go to the server. A packet whose bit was set is answered with the sums if the cell is complete;
  otherwise nothing happens.
- A resent packet does not claim. From its own cell it takes the partial sum to the server, and frees the
  cell.
- The server's acknowledgement frees its cell, and goes to all workers. A request for floats frees nothing.
- Floats pass on to the server.

The owner is compared, `key` is not: sequence numbers start anew in each tensor, so a cell cannot tell the
packets of two tensors apart. With `check`, an extension that is off by default, it can.

The server. Its model covers the loop of in-ATP/ATP's `server/ParameterServer.cc` (ddca27f) for one job:

- A packet with another key than the tensor's begins a new tensor, if the old one is complete. Otherwise its
  key is ignored.
- A packet with all bits replaces the sums, whatever has been counted. Any other packet is added, unless one
  of its bits has been counted.
- When a sequence number is complete, each packet of it is answered with an acknowledgement: the packet with
  the sums. If any of them was marked as collided, the acknowledgement names a new cell, of a shuffled list.
- A sum at an end of the range, or a packet of floats that is not resent, makes the server ask all workers for
  floats. Floats are then added as integers are.

Three bugs of the original are not reproduced. Every other repeated acknowledgement has its values in the
wrong byte order, because the sums are converted in place. A partial sum at an end of the range counts as a
float. And a late packet of integers causes sums of floats to be acknowledged as integers.

With `check`, packets of an older tensor are answered from that tensor, or dropped.

The worker. Its model covers in-ATP/ATP's `client/p4ml_manager.cc` (ddca27f) for one thread: packets are sent
while they are at most a window ahead of the first gap in the acknowledgements. An acknowledgement after a gap
makes the worker resend the packets of the gap, once; a timeout makes it resend the first of them. After each
window of packets it is halved if its last acknowledgement reports congestion; otherwise it grows by 1,500
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hotline_allreduce.atp.packet import (
    ACK,
    CELLS,
    COLLISION,
    ECN,
    NO_VALUES,
    OVERFLOW,
    RESEND,
    VALUES,
    AtpPacket,
)

MASK, SIGN_BIT = 2**32 - 1, 2**31  # largest 32-bit word; set in words that are negative integers
MAX_INT32 = 2**31 - 1
_MAX_COUNT = 0xFF  # the count of a cell has 8 bits
SATURATED_VALUES = {MAX_INT32, SIGN_BIT}
"""The largest and the smallest 32-bit integer, as words."""
_ANSWER_BITMAP = 1  # workers do not read it
FRAME_BYTES, GROWTH_BYTES = 308, 1_500
"""Size of a frame in the published code, and growth of a window."""


class Output(NamedTuple):
    is_multicast: bool  # whether the packet goes to all workers of the job; else to the server
    packet: AtpPacket


@dataclass
class CellModel:
    owner: int = 0
    """Job and sequence number; 0 for none."""
    key: int = 0
    """The lower half of the tensor's number; used with `check`."""
    bitmap: int = 0
    count: int = 0
    ecn: int = 0
    values: tuple[int, ...] = NO_VALUES

    def free(self) -> None:
        self.owner = self.bitmap = self.count = self.ecn = 0


@dataclass
class AtpSwitchModel:
    cells: int = CELLS
    check: bool = False
    children: int | None = None
    """Packets of a complete cell; None for one of each worker of its job."""
    is_root: bool = False
    """Whether this is the second of two levels, which packets pass that collided at the first."""
    memory: list[CellModel] = field(init=False)

    def __post_init__(self) -> None:
        self.memory = [CellModel() for _ in range(self.cells)]

    def take(self, packet: AtpPacket, is_marked: bool = False) -> Output | None:
        """Process a packet; `is_marked` is whether its IP header has congestion experienced."""
        if packet.cell >= self.cells:
            return None
        cell = self.memory[packet.cell]
        if packet.has(ACK):
            is_float_request = packet.has(OVERFLOW) and not packet.has(RESEND)
            if self._is_owner(cell, packet) and not is_float_request:
                cell.free()
            return Output(is_multicast=True, packet=packet)
        if packet.has(OVERFLOW) or (self.is_root and packet.has(COLLISION)):
            return Output(is_multicast=False, packet=packet)
        lead = self._tensor_lead(cell, packet)
        if lead < 0 and not packet.has(RESEND):
            return None
        if lead > 0:
            cell.free()
        if not self._claim(cell, packet):
            passed_on = packet if packet.has(RESEND) else _with_flag(packet, COLLISION)
            return Output(is_multicast=False, packet=passed_on)
        return self._aggregate(cell, packet, is_marked or packet.has(ECN))

    def _tensor_lead(self, cell: CellModel, packet: AtpPacket) -> int:
        """Return the packet's tensor number minus the cell's; 0 without `check`, or if owners differ."""
        if not self.check or cell.owner != owner_of(packet):
            return 0
        difference = (packet.key - cell.key) & MASK
        return difference - ((difference & SIGN_BIT) << 1)  # as a signed integer

    def _is_owner(self, cell: CellModel, packet: AtpPacket) -> bool:
        return cell.owner == owner_of(packet) and self._tensor_lead(cell, packet) == 0

    def _claim(self, cell: CellModel, packet: AtpPacket) -> bool:
        """Claim a cell without owner; a resent packet frees its own. Return whether the cell is its own."""
        is_owner = self._is_owner(cell, packet)
        if packet.has(RESEND):
            if is_owner:
                cell.owner = 0
        elif cell.owner == 0:
            cell.owner, cell.key = owner_of(packet), packet.key & MASK
            return True
        return is_owner

    def _aggregate(self, cell: CellModel, packet: AtpPacket, is_congested: bool) -> Output | None:
        if cell.ecn:
            packet = _with_flag(packet, ECN)
        cell.ecn |= is_congested
        seen_before = cell.bitmap
        is_fresh = bool(packet.bitmap & ~seen_before)
        if packet.has(RESEND):
            cell.bitmap = cell.count = 0
            is_complete = True  # even a partial sum goes to the server
        else:
            cell.bitmap |= packet.bitmap
            cell.count = (cell.count + is_fresh) & _MAX_COUNT
            is_complete = cell.count == (self.children or packet.workers)
        # The first packet overwrites old values: with two workers or more, it does not complete its cell.
        if is_fresh and not is_complete and seen_before == 0:
            cell.values = packet.values
        elif is_fresh:
            cell.values = tuple(map(add, cell.values, packet.values))
        if not is_complete:
            return None
        sums = packet._replace(bitmap=seen_before | packet.bitmap, values=cell.values)
        return Output(is_multicast=False, packet=sums)


def owner_of(packet: AtpPacket) -> int:
    return packet.app << 16 | packet.sequence


def add(stored: int, value: int) -> int:
    """Return the sum of two 32-bit words, saturated; a cell at an end of the range stays there."""
    signed_sum = stored - ((stored & SIGN_BIT) << 1)  # two's complement
    # As in the published code, `-MAX_INT32` counts as an end, too.
    if not -MAX_INT32 < signed_sum < MAX_INT32:
        return stored
    return max(-SIGN_BIT, min(MAX_INT32, signed_sum + value - ((value & SIGN_BIT) << 1))) & MASK


def _with_flag(packet: AtpPacket, flag: int) -> AtpPacket:
    return packet._replace(flags=packet.flags | flag)


@dataclass
class ChunkModel:
    bitmap: int = 0
    is_float: bool = False
    is_collided: bool = False
    values: tuple[int, ...] = NO_VALUES


@dataclass
class TensorModel:
    key: int
    workers: int
    chunks: list[ChunkModel]

    @property
    def is_complete(self) -> bool:
        return all(self.is_chunk_complete(chunk) for chunk in self.chunks)

    def is_chunk_complete(self, chunk: ChunkModel) -> bool:
        return chunk.bitmap == (1 << self.workers) - 1


def _no_tensor() -> TensorModel:
    # No packet has key -1, which precedes all keys.
    return TensorModel(key=-1, workers=0, chunks=[])


@dataclass
class ServerModel:
    spare_cells: tuple[int, ...] = ()
    """Cells in the order in which they are assigned to collided sequence numbers."""
    check: bool = False
    tensor: TensorModel = field(default_factory=_no_tensor)
    previous_tensor: TensorModel = field(default_factory=_no_tensor)
    """The tensor before `tensor`, from which `check` answers late packets."""
    declared_cells: set[int] = field(default_factory=set)  # cells named in packets, or assigned
    replacements: dict[int, int] = field(default_factory=dict)  # collided cell -> new cell
    next_spare_index: int = 0

    def take(self, packet: AtpPacket) -> AtpPacket | None:
        if packet.sequence > chunks_of(packet):
            return None
        self.declared_cells.add(packet.cell)
        tensor = self._tensor_of(packet)
        if tensor is None or packet.sequence > len(tensor.chunks):
            return None
        chunk = tensor.chunks[packet.sequence - 1]
        chunk.is_collided |= packet.has(COLLISION)
        is_float, is_resent = packet.has(OVERFLOW), packet.has(RESEND)
        is_overflow = is_float or not SATURATED_VALUES.isdisjoint(packet.values)
        if is_overflow and not chunk.is_float:
            chunk.is_float, chunk.bitmap = True, 0
        # Of floats, only resent ones are added. A resent integer shows that the request for them may be lost.
        needs_floats = not (is_float and is_resent) if is_overflow else chunk.is_float and is_resent
        if needs_floats:
            flags = (packet.flags | ACK | OVERFLOW) & ~RESEND
            return packet._replace(bitmap=_ANSWER_BITMAP, flags=flags)
        self._count_packet(tensor, chunk, packet)
        return self._acknowledge(chunk, packet) if tensor.is_chunk_complete(chunk) else None

    def _tensor_of(self, packet: AtpPacket) -> TensorModel | None:
        is_new = packet.key > self.tensor.key if self.check else packet.key != self.tensor.key
        if is_new and (self.check or self.tensor.is_complete):
            self.previous_tensor = self.tensor
            chunks = [ChunkModel() for _ in range(chunks_of(packet))]
            self.tensor = TensorModel(packet.key, packet.workers, chunks)
        if not self.check or packet.key == self.tensor.key:
            return self.tensor
        return self.previous_tensor if packet.key == self.previous_tensor.key else None

    def _count_packet(self, tensor: TensorModel, chunk: ChunkModel, packet: AtpPacket) -> None:
        if packet.bitmap == (1 << tensor.workers) - 1:
            chunk.values, chunk.bitmap = packet.values, packet.bitmap
        elif chunk.is_float == packet.has(OVERFLOW) and not chunk.bitmap & packet.bitmap:
            chunk.values = _add_values(chunk.values, packet) if chunk.bitmap else packet.values
            chunk.bitmap |= packet.bitmap

    def _acknowledge(self, chunk: ChunkModel, packet: AtpPacket) -> AtpPacket:
        flags, length = (packet.flags | ACK) & ~COLLISION, packet.length
        if chunk.is_float:
            flags |= OVERFLOW | RESEND
        if chunk.is_collided:
            # An acknowledgement needs no length, so the field names the new cell.
            flags, length = flags | COLLISION, self._replacement_of(packet.cell)
        return packet._replace(bitmap=_ANSWER_BITMAP, flags=flags, length=length, values=chunk.values)

    def _replacement_of(self, cell: int) -> int:
        """Return the cell that replaces the collided `cell`; `cell` itself if no spare cell is left."""
        while cell not in self.replacements and self.next_spare_index < len(self.spare_cells):
            free_cell = self.spare_cells[self.next_spare_index]
            self.next_spare_index += 1
            if free_cell not in self.declared_cells:
                self.declared_cells.add(free_cell)
                self.replacements[cell] = free_cell
        return self.replacements.get(cell, cell)


def chunks_of(packet: AtpPacket) -> int:
    return -(-packet.length // VALUES)


def _add_values(sums: tuple[int, ...], packet: AtpPacket) -> tuple[int, ...]:
    """Return the sums of words, which are floats if the packet's are, and wrap if they are integers."""
    if not packet.has(OVERFLOW):
        return tuple(
            (partial_sum + value) & MASK for partial_sum, value in zip(sums, packet.values, strict=True)
        )
    words = np.array([sums, packet.values], np.uint32).view(np.float32)
    float_sums: list[int] = (words[0] + words[1]).view(np.uint32).tolist()
    return tuple(float_sums)


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
