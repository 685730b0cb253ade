"""Values and owners of a server's share: what pulls read and pushes add.

A state has `cells`, CELL[jobs, places + 1], of which the last is nobody's, `share`, `jobs`, and `at` of its
`me`."""

from __future__ import annotations

from typing import Any

from foundation.protocol.header import LANES, VALUES, Header
from foundation.protocol.rpc import ALL, Rpc
from hosts.ps.share import Share, locate
from nativekit.bits import popcount, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import record, records

AWAY = 1 << 31
"""Bit of a cell's `updates`: the key is given away. A cell of zeros is owned, and takes no memory as yet."""
ME = (("at", "i8", (LANES,)),)
CELL = record(("value", "u4"), ("updates", "u4"))


def make_cells(jobs: int, share: Share) -> Any:
    """Cells of a share, all owned and of value 0, and nobody's, which is away."""
    cells = records((jobs, share.me.places + 1), CELL)
    cells["updates"][:, -1] = AWAY
    return cells


@compiled
def lanes_to_serve(h: Header) -> int:
    """Bitmap of the lanes that the switch has left to the PS."""
    return h.live & ~h.served


@compiled
def locate_lanes(server: Any, rpc: Rpc, count: int, wanted: int) -> None:
    """Places of the wanted lanes' keys to `me.at`: all look-ups first, so that memory fetches side by side.

    Keys of other shares are nobody's here, as is what is not wanted, and so are refused.
    """
    at, nobodys = server.me.at, int64(server.share.me.places)
    for lane in range(count):
        at[lane] = locate(server.share, swap64(rpc.keys[lane])) if wanted >> lane & 1 else nobodys


@compiled
def pull(server: Any, j: int, h: Header, rpc: Rpc, answer: Rpc) -> int:
    """Write all values, the switch's for the lanes that it served; returns the lanes refused."""
    brought = h.served if h.flags & VALUES else int64(0)
    refused = int64(0)
    locate_lanes(server, rpc, h.count, ~brought)
    for lane in range(h.count):
        if brought >> lane & 1:
            answer.words[lane] = rpc.words[2 * h.count + lane]
        else:
            cell = server.cells[j, server.me.at[lane]]
            answer.words[lane] = swap32(cell.value)
            if cell.updates >= AWAY:
                refused |= 1 << lane
    return refused & lanes_to_serve(h)


@compiled
def push(server: Any, j: int, h: Header, rpc: Rpc) -> int:
    """Add what is this PS's; returns the lanes added."""
    wanted, added, overflow = lanes_to_serve(h), int64(0), int64(0)
    locate_lanes(server, rpc, h.count, wanted)
    for lane in range(h.count):
        cell = server.cells[j, server.me.at[lane]]
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
