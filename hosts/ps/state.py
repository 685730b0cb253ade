"""All that the compiled part of a PS works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hosts.ps.journal import NOTE_BYTES
from hosts.ps.share import Share
from native.compile import compiled, int64
from native.plain import plain
from native.records import record, records
from protocol.header import LANES, WINDOW

AWAY = 1 << 31
"""Bit of a cell's `updates`: the key is given away. A cell of zeros is owned, and takes no memory as yet."""

JOB_COUNTERS = (
    "packets", "bytes", "rpcs", "proc_wall_ns", "proc_cpu_ns", "duplicates", "stale", "refused_lanes",
    "applied_lanes", "overflows",
)  # fmt: skip
_ME = record(
    "ps",
    "malformed",
    "foreign",
    "misdirected",
    "contacts",
    "callers",
    "is_durable",
    "noted",
    ("at", "i8", (LANES,)),
)
_JOB = record("job", "in_burst", *JOB_COUNTERS)
CALLER = record("known", "job", "worker", "epoch", ("turns", "u4", (WINDOW,)), ("added", "u4", (WINDOW,)))
CELL = record(("value", "u4"), ("updates", "u4"))
CONTACT = record("arrival", ("worker", "i4"), ("job", "i4"))
_CALLERS = 1024
CONTACTS = 1 << 16
JOURNAL_BYTES = 1 << 20
"""Room for the notes of some bursts."""


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
    me.ps, me.is_durable = ps, journal_bytes > 0
    rows = records(len(jobs), _JOB)
    rows["job"] = jobs
    cells = records((len(jobs), share.me.places + 1), CELL)
    cells["updates"][:, -1] = AWAY
    return Server(
        me, rows, records(_CALLERS, CALLER), cells, np.zeros(cells.shape, np.uint32),
        records(CONTACTS, CONTACT), np.zeros(journal_bytes, np.uint8), share,
    )  # fmt: skip


@compiled
def needs_room(server: Server, datagrams: int) -> bool:
    """Whether that many datagrams might not find room for their contacts, callers or notes.

    Each may be from a caller that was not known, and ask about another.
    """
    me = server.me
    if me.contacts + datagrams > len(server.contacts):
        return True
    if me.is_durable and me.noted + datagrams * NOTE_BYTES > len(server.journal):
        return True
    return is_full(int64(me.callers) + 2 * datagrams, len(server.callers))


@compiled
def is_full(callers: int, rows: int) -> bool:
    """Whether a hash table has too many callers to be quick."""
    return 4 * callers > 3 * rows


def with_room(server: Server, datagrams: int) -> tuple[Server, Any]:
    """The same PS with room for that many datagrams, and the contacts [n] that it no longer has."""
    contacts = server.contacts[: server.me.contacts]
    server.me.contacts = 0
    server = server._replace(contacts=records(max(CONTACTS, datagrams), CONTACT))
    while _is_full(int(server.me.callers) + 2 * datagrams, len(server.callers)):
        server = server._replace(callers=_rehashed(server.callers))
    return server, contacts


def _rehashed(callers: Any) -> Any:
    larger = records(2 * len(callers), CALLER)
    for row in callers[callers.known == 1]:
        larger[_slot_of(larger, row.job, row.worker, row.epoch)] = row
    return larger


@compiled
def slot_of(callers: Any, job: int, worker: int, epoch: int) -> int:
    """Index of the caller's row, or of the empty one where it is to be."""
    at = (worker * 31 + job * 7 + epoch) & len(callers) - 1
    while True:
        row = callers[at]
        if not row.known or (row.worker == worker and row.job == job and row.epoch == epoch):
            return at
        at = (at + 1) & len(callers) - 1


_slot_of = plain(slot_of)
_is_full = plain(is_full)


@compiled
def find_caller(server: Server, job: int, worker: int, epoch: int) -> int:
    """Index of a caller's row; a new one gets an empty row."""
    at = slot_of(server.callers, job, worker, epoch)
    row = server.callers[at]
    if not row.known:
        row.known, row.job, row.worker, row.epoch = 1, job, worker, epoch
        server.me.callers += 1
    return at


@compiled
def find_job(server: Server, job: int) -> int:
    """Index of a job, or -1."""
    for j in range(len(server.jobs)):
        if server.jobs[j].job == job:
            return j
    return -1
