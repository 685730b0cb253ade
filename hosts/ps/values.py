"""Values and owners of a server's share, and the pulls and pushes on them."""

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
"""Bit of a cell's `updates`: the switch owns the key. A cell of zeros is owned, and takes no memory yet."""


class ValuesHeader(PsHeader):
    """The header of a server's state with values."""

    at: Annotated[Ints, LANES]  # places of the keys of the current RPC


class Cell:
    """The value of a parameter."""

    value: UInt32
    updates: UInt32  # number of updates; with the bit AWAY if the switch owns the key


CELL = dtype_of(Cell)


class ValuesState(PsState, Protocol):
    """A server's state with parameters."""

    @property
    def header(self) -> ValuesHeader: ...

    @property
    def cells(self) -> RecordTable[Cell]:
        """Cell[jobs, places + 1]; the last one stands for keys of other shares."""

    @property
    def share(self) -> Share: ...


def make_cells(jobs: int, share: Share) -> RecordTable[Cell]:
    """Make the cells of a share, all owned and 0; the last one stands for keys of other shares."""
    cells = records((jobs, share.header.places + 1), Cell)
    cells["updates"][:, -1] = AWAY
    return cells


@compiled
def lanes_to_serve(h: Header) -> int:
    return h.live & ~h.served


@compiled
def locate_lanes(server: ValuesState, rpc: Rpc, count: int, wanted: int) -> None:
    """Write the places of wanted keys to `header.at`. All look-ups come first: cache misses overlap."""
    # Unwanted lanes and keys of other shares get the place behind the share, whose keys are refused.
    at, outside = server.header.at, int64(server.share.header.places)
    for lane in range(count):
        at[lane] = locate(server.share, swap64(rpc.keys[lane])) if wanted >> lane & 1 else outside


@compiled
def pull(server: ValuesState, j: int, h: Header, rpc: Rpc, answer: Rpc) -> int:
    """Write the values of all lanes, those of the switch included; return the bitmap of refused lanes."""
    with_value = h.served if h.flags & VALUES else int64(0)
    refused = int64(0)
    locate_lanes(server, rpc, h.count, ~with_value)
    for lane in range(h.count):
        if with_value >> lane & 1:
            answer.words[lane] = rpc.words[2 * h.count + lane]
        else:
            cell = server.cells[j, server.header.at[lane]]
            answer.words[lane] = swap32(cell.value)
            if cell.updates >= AWAY:
                refused |= 1 << lane
    return refused & lanes_to_serve(h)


@compiled
def push(server: ValuesState, j: int, h: Header, rpc: Rpc) -> int:
    """Add the deltas of keys that this PS owns; return the bitmap of added lanes."""
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
