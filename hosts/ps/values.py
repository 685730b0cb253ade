"""Values and owners of a server's share: what pulls read and pushes add."""

from __future__ import annotations

from typing import Annotated, Protocol

from foundation.protocol.header import LANES, VALUES, Header
from foundation.protocol.rpc import ALL, Rpc
from hosts.ps.rpcs import PsHeader, PsState
from hosts.ps.share import Share, locate
from nativekit.bits import popcount, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import Ints, RecordTable, UInt32, dtype_of, records

AWAY = 1 << 31
"""Bit of a cell's `updates`: the key is given away. A cell of zeros is owned, and takes no memory as yet."""


class ValuesHeader(PsHeader):
    """What `header` of these designs' states has."""

    at: Annotated[Ints, LANES]
    """Places of the keys at hand."""


class Cell:
    """The value of a parameter."""

    value: UInt32
    updates: UInt32
    """How often it was updated; AWAY where the key is given away."""


CELL = dtype_of(Cell)


class ValuesState(PsState, Protocol):
    """What these functions work on."""

    @property
    def header(self) -> ValuesHeader:
        """The record of numbers."""

    @property
    def cells(self) -> RecordTable[Cell]:
        """Cell[jobs, places + 1], of which the last is nobody's."""

    @property
    def share(self) -> Share:
        """Which keys are this PS's."""


def make_cells(jobs: int, share: Share) -> RecordTable[Cell]:
    """Cells of a share, all owned and of value 0, and nobody's, which is away."""
    cells = records((jobs, share.header.places + 1), Cell)
    cells["updates"][:, -1] = AWAY
    return cells


@compiled
def lanes_to_serve(h: Header) -> int:
    """Bitmap of the lanes that the switch has left to the PS."""
    return h.live & ~h.served


@compiled
def locate_lanes(server: ValuesState, rpc: Rpc, count: int, wanted: int) -> None:
    """Write the places of the wanted keys to `header.at`; all look-ups come first, so cache misses overlap.

    Unwanted lanes and keys of other shares get the place behind the share, whose keys are refused.
    """
    at, nobodys = server.header.at, int64(server.share.header.places)
    for lane in range(count):
        at[lane] = locate(server.share, swap64(rpc.keys[lane])) if wanted >> lane & 1 else nobodys


@compiled
def pull(server: ValuesState, j: int, h: Header, rpc: Rpc, answer: Rpc) -> int:
    """Write all values, the switch's for the lanes that it served; returns the lanes refused."""
    brought = h.served if h.flags & VALUES else int64(0)
    refused = int64(0)
    locate_lanes(server, rpc, h.count, ~brought)
    for lane in range(h.count):
        if brought >> lane & 1:
            answer.words[lane] = rpc.words[2 * h.count + lane]
        else:
            cell = server.cells[j, server.header.at[lane]]
            answer.words[lane] = swap32(cell.value)
            if cell.updates >= AWAY:
                refused |= 1 << lane
    return refused & lanes_to_serve(h)


@compiled
def push(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    """Add what is this PS's; returns the lanes added."""
    wanted, added, overflow = lanes_to_serve(h), int64(0), int64(0)
    locate_lanes(server, rpc, h.count, wanted)
    for lane in range(h.count):
        cell = server.cells[j, server.header.at[lane]]
        if cell.updates < AWAY:
            held, delta = int64(cell.value), swap32(rpc.words[2 * h.count + lane])
            total = held + delta & ALL
            overflow |= (held ^ total) & (delta ^ total)
            cell.value = total
            cell.updates += 1
            added |= 1 << lane
    server.jobs[j].applied_lanes += popcount(added)
    server.jobs[j].overflows += overflow >> 31
    return added
