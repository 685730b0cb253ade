"""A plain model of ATP's switch by its published rules, which the P4 program is tested against.

It covers what in-ATP/ATP (ddca27f) does in `p4src/p4ml.p4`, in one pass instead of two:

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
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hotline_allreduce.atp.packet import ACK, CELLS, COLLISION, ECN, NO_VALUES, OVERFLOW, RESEND, AtpPacket

MASK, SIGN_BIT = 2**32 - 1, 2**31  # largest 32-bit word; set in words that are negative integers
MAX_INT32 = 2**31 - 1
_MAX_COUNT = 0xFF  # the count of a cell has 8 bits


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
    memory: list[CellModel] = field(init=False)

    def __post_init__(self) -> None:
        self.memory = [CellModel() for _ in range(self.cells)]

    def copy(self) -> AtpSwitchModel:
        copy = AtpSwitchModel(cells=0, check=self.check)  # no new cells, as they are replaced
        copy.cells, copy.memory = self.cells, [replace(cell) for cell in self.memory]
        return copy

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
        if packet.has(OVERFLOW):
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
            is_complete = cell.count == packet.workers
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
