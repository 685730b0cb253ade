"""All that the compiled part of a PS works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foundation.designs.interface import NEVER
from hosts.ps.journal import NOTE_BYTES
from hosts.ps.rpcs import CALLERS, CONTACTS, CallerRow, Contact, Job
from hosts.ps.rpcs import needs_room as lacks_room
from hosts.ps.share import Share
from hosts.ps.values import Cell, ValuesHeader, make_cells
from nativekit.compile import compiled
from nativekit.records import Octets, Records, RecordTable, Words, one, records


class ServerRecord(ValuesHeader):
    """The record of numbers."""

    is_durable: int


class Server(NamedTuple):
    """A PS. Cells have one more place, nobody's, which is away."""

    header: ServerRecord
    """A record."""
    jobs: Records[Job]
    """JOB[jobs]: what each has cost."""
    callers: Records[CallerRow]
    """CALLER[2^k], a hash table: last turn of each slot, and the lanes that were added in it."""
    cells: RecordTable[Cell]
    """CELL[jobs, places + 1]"""
    at_switch: Words
    """uint32[jobs, places + 1]: what the switch has been given of each value and has not given back."""
    contacts: Records[Contact]
    """CONTACT[n], the first `header.contacts` in use: the connection log, which the owner takes away."""
    journal: Octets
    """uint8[m], the first `header.noted` in use: what is to be kept before anything is sent; [0] if not
    durable."""
    share: Share


def make_server(ps: int, jobs: Sequence[int], share: Share, journal_bytes: int = 0) -> Server:
    """A PS that owns all of its share in every job, all values 0; one with a journal is durable."""
    header = one(ServerRecord)
    header.ps, header.is_durable, header.due = ps, journal_bytes > 0, NEVER
    rows = records(len(jobs), Job)
    rows["job"] = jobs
    cells = make_cells(len(jobs), share)
    return Server(
        header, rows, records(CALLERS, CallerRow), cells, np.zeros(cells.shape, np.uint32),
        records(CONTACTS, Contact), np.zeros(journal_bytes, np.uint8), share,
    )  # fmt: skip


@compiled
def needs_room(server: Server, datagrams: int) -> bool:
    """Whether that many datagrams might not find room for their contacts, callers or notes."""
    header = server.header
    if header.is_durable and header.noted + datagrams * NOTE_BYTES > len(server.journal):
        return True
    return lacks_room(server, datagrams)
