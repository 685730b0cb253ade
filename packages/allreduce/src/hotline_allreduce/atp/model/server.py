"""A plain model of ATP's server, which the compiled server is tested against.

It covers the loop of in-ATP/ATP's `server/ParameterServer.cc` (ddca27f) for one job:

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
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hotline_allreduce.atp.model.rules import MASK, MAX_INT32, SIGN_BIT
from hotline_allreduce.atp.packet import ACK, COLLISION, NO_VALUES, OVERFLOW, RESEND, VALUES, AtpPacket

SATURATED_VALUES = {MAX_INT32, SIGN_BIT}
"""The largest and the smallest 32-bit integer, as words."""
_ANSWER_BITMAP = 1  # workers do not read it


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

    def copy(self) -> TensorModel:
        return replace(self, chunks=[replace(chunk) for chunk in self.chunks])


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

    def copy(self) -> ServerModel:
        return replace(
            self, tensor=self.tensor.copy(), previous_tensor=self.previous_tensor.copy(),
            declared_cells=set(self.declared_cells), replacements=dict(self.replacements),
        )  # fmt: skip

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
