"""A server's half: it holds all parameters of its share, and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from foundation.designs.halves import server_half
from foundation.designs.interface import NEVER, SILENT, ServerHalf
from foundation.protocol.header import SLOT_MASK
from foundation.protocol.rpc import PULL, PUSH, Rpc, decode
from hosts.keys import KeySpace
from hosts.ps.rpcs import (
    CALLER,
    CALLERS,
    CONTACT,
    CONTACTS,
    JOB,
    ME,
    NEW,
    STALE,
    admit,
    charge,
    end_turn,
    foreign,
    lanes_left,
    needs_room,
    share_cpu,
    stamp,
    write_answer,
)
from hosts.ps.share import Share, make_share
from hosts.ps.silent import never_wakes, no_address, no_octets, no_peer, sends_nothing
from hosts.ps.values import ME as VALUES_ME
from hosts.ps.values import lanes_to_serve, make_cells, pull, push
from nativekit.compile import compiled, int64
from nativekit.records import record, records

_ME = record(*ME, *VALUES_ME)


class Holder(NamedTuple):
    """A server. Cells have one more place, nobody's, which is away."""

    me: Any
    """A record."""
    jobs: Any
    """JOB[jobs]: what each has cost."""
    callers: Any
    """CALLER[2^k], a hash table."""
    cells: Any
    """CELL[jobs, places + 1]"""
    contacts: Any
    """CONTACT[n], the first `me.contacts` in use."""
    share: Share


def make_holder(ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0) -> Holder:
    """A server of `n_ps` that has all of its share, all values 0; it keeps no journal."""
    share = make_share(space, ps, n_ps)
    me = records(1, _ME)[0]
    me.ps, me.due = ps, NEVER
    rows = records(len(jobs), JOB)
    rows["job"] = jobs
    return Holder(
        me, rows, records(CALLERS, CALLER), make_cells(len(jobs), share), records(CONTACTS, CONTACT), share
    )


@compiled
def handle(server: Holder, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    """Answer a datagram that the kernel received at `arrival` (ns)."""
    mark = foreign(server, rpc, length)
    if mark <= 0:
        return mark
    h = decode(rpc)
    j, c, standing = admit(server, h, length, arrival)
    if standing == STALE:
        return SILENT
    refused, added = int64(0), int64(0)
    if h.op == PULL:
        refused = pull(server, j, h, rpc, answer)
    elif h.op == PUSH:
        added = (
            push(server, j, h, rpc) if standing == NEW else int64(server.callers[c].added[h.seq & SLOT_MASK])
        )
        refused = lanes_to_serve(h) & ~added
    if standing == NEW:
        end_turn(server, j, c, h, added, refused)
    return write_answer(answer, rpc, h, refused)


SERVER = server_half(
    Holder,
    ServerHalf(
        handle, lanes_left, stamp, charge, share_cpu, needs_room,
        sends_nothing, no_address, no_octets, no_peer, never_wakes,
    ),
)  # fmt: skip
