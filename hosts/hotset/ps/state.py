"""All that the compiled part of a PS works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from foundation.designs.interface import NEVER
from hosts.ps.journal import NOTE_BYTES
from hosts.ps.rpcs import CALLER, CALLERS, CONTACT, CONTACTS, JOB, ME
from hosts.ps.rpcs import needs_room as lacks_room
from hosts.ps.share import Share
from hosts.ps.values import ME as VALUES_ME
from hosts.ps.values import make_cells
from nativekit.compile import compiled
from nativekit.records import record, records

_ME = record(*ME, *VALUES_ME, "is_durable")


class Server(NamedTuple):
    """A PS. Cells have one more place, nobody's, which is away."""

    me: Any
    """A record."""
    jobs: Any
    """JOB[jobs]: what each has cost."""
    callers: Any
    """CALLER[2^k], a hash table: last turn of each slot, and the lanes that were added in it."""
    cells: Any
    """CELL[jobs, places + 1]"""
    lent: Any
    """uint32[jobs, places + 1]: what the switch has been given of each value and has not given back."""
    contacts: Any
    """CONTACT[n], the first `me.contacts` in use: the connection log, which the owner takes away."""
    journal: Any
    """uint8[m], the first `me.noted` in use: what is to be kept before anything is sent; [0] if not
    durable."""
    share: Share


def make_server(ps: int, jobs: Sequence[int], share: Share, journal_bytes: int = 0) -> Server:
    """A PS that owns all of its share in every job, all values 0; one with a journal is durable."""
    me = records(1, _ME)[0]
    me.ps, me.is_durable, me.due = ps, journal_bytes > 0, NEVER
    rows = records(len(jobs), JOB)
    rows["job"] = jobs
    cells = make_cells(len(jobs), share)
    return Server(
        me, rows, records(CALLERS, CALLER), cells, np.zeros(cells.shape, np.uint32),
        records(CONTACTS, CONTACT), np.zeros(journal_bytes, np.uint8), share,
    )  # fmt: skip


@compiled
def needs_room(server: Server, datagrams: int) -> bool:
    """Whether that many datagrams might not find room for their contacts, callers or notes."""
    me = server.me
    if me.is_durable and me.noted + datagrams * NOTE_BYTES > len(server.journal):
        return True
    return lacks_room(server, datagrams)
