"""Common parts of servers that speak Hotline's RPC: callers and their turns, jobs and their costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import (
    HEADER_BYTES,
    MAX_EPOCHS,
    PS_BITS,
    PS_MASK,
    RESPONSE,
    SLOT_MASK,
    VALUE_BYTES,
    VALUES,
    VERSION,
    WINDOW,
    WINDOW_BITS,
    Header,
)
from foundation.protocol.rpc import PULL, Rpc, echo, is_well_formed
from hotline_agents.interface import FOREIGN, NO_REPLY, NOTHING, ServerState
from nativekit.bits import popcount, swap16, swap32
from nativekit.compile import compiled, inlined, int64
from nativekit.plain import plain
from nativekit.records import Int32, Records, Words, dtype_of, records, with_arrays


class PsHeader:
    ps: int
    last_home: int  # index of the last home; 0 for a server with one
    malformed: int
    foreign: int  # number of datagrams of another protocol version
    misdirected: int
    n_workers: int  # of the run: callers are numbered from 1; 0 if the number is not known
    n_connection_records: int  # number of rows used in the array `connection_records`
    n_callers: int  # number of rows used in the table `callers`
    journal_length: int  # number of bytes used in the journal
    due: int  # when `wake` is due next, in ns; 0 for at once
    combination: int  # code of the `Combination` of the design


class Job:
    """Cost counters of a job: bytes are UDP payloads, times in ns."""

    job: int
    in_burst: int  # number of its RPCs in the current burst
    packets: int
    bytes: int
    rpcs: int
    proc_wall_ns: int
    proc_cpu_ns: int
    duplicates: int
    stale: int
    refused_lanes: int
    applied_lanes: int
    overflows: int


class CallerRow:
    in_use: int
    job: int
    caller: int  # `caller_of` its requests
    epoch: int
    turns: Annotated[Words, WINDOW]  # of each slot: the turn, seq >> WINDOW_BITS, of its last request
    added: Annotated[Words, WINDOW]  # of each slot: bitmap of the lanes that its last request added


class ConnectionRecord:
    """A row of the log `connections`: a request that has arrived."""

    arrival: int
    worker: Int32
    job: Int32


JOB, CALLER, CONNECTION_RECORD = dtype_of(Job), dtype_of(CallerRow), dtype_of(ConnectionRecord)
assert JOB.names is not None
JOB_COUNTERS = JOB.names[2:]  # the fields after `job` and `in_burst`


class JobsState(ServerState, Protocol):
    @property
    def header(self) -> PsHeader: ...

    @property
    def jobs(self) -> Records[Job]: ...

    @property
    def connection_records(self) -> Records[ConnectionRecord]:
        """The connection log [n], of which the first `header.n_connection_records` rows are in use."""


class PsState(JobsState, Protocol):
    @property
    def callers(self) -> Records[CallerRow]:
        """CallerRow[2^k], a hash table by job and caller, with up to MAX_EPOCHS rows for each caller."""


P = TypeVar("P", bound=PsState)


def make_jobs(jobs: Sequence[int]) -> Records[Job]:
    rows = records(len(jobs), Job)
    rows["job"] = jobs
    return rows


STALE, DUPLICATE, NEW = 0, 1, 2
"""Kinds of requests: not answered; a copy of the last one of its slot; the next one of its slot."""
SAME_VERSION = 1
WORKER_BITS = 16  # of the field `worker`
CALLERS = 1024  # initial size of the table, a power of 2
CONNECTION_RECORDS = 1 << 16  # size of the connection log's array
_MAX_FOREIGN_REPORTS = 8
"""Number of foreign datagrams that are reported; later ones are only counted, and cannot block the server."""


@compiled
def check_version(server: PsState, rpc: Rpc, length: int) -> int:
    """Return SAME_VERSION; for another version FOREIGN if it is to be reported, else NO_REPLY."""
    header = server.header
    if length < HEADER_BYTES or rpc.version == VERSION:
        return SAME_VERSION  # or too short to tell, which `admit` counts
    header.malformed += 1
    header.foreign += 1
    return FOREIGN if header.foreign <= _MAX_FOREIGN_REPORTS else NO_REPLY


@compiled
def admit(server: PsState, h: Header, length: int, arrival: int) -> tuple[int, int, int]:
    """Count a request; return the indexes of its job and its caller, and NEW, DUPLICATE or STALE.

    Datagrams that are no request to this server are STALE, too.
    """
    header = server.header
    if length < HEADER_BYTES or not is_well_formed(h, length):
        header.malformed += 1
        return -1, -1, STALE
    j = find_job(server, h.job)
    if j < 0 or not is_number_of(server, h.ps) or h.flags & RESPONSE or is_unknown_worker(server, h):
        header.misdirected += 1
        return -1, -1, STALE
    c = find_caller(server, h.job, caller_of(h), h.epoch)
    job, turn = server.jobs[j], h.seq >> WINDOW_BITS
    last_turn = MAX_U32 if c == NOTHING else int64(server.callers[c].turns[h.seq & SLOT_MASK])
    job.packets += 1
    job.bytes += length
    connection = server.connection_records[header.n_connection_records]
    connection.arrival, connection.worker, connection.job = arrival, h.worker, h.job
    header.n_connection_records += 1
    if turn < last_turn or turn == 0:  # turns count from 1
        job.stale += 1
        return j, c, STALE
    if turn > last_turn:
        job.rpcs += 1
    else:
        job.duplicates += 1
    job.in_burst += 1
    return j, c, NEW if turn > last_turn else DUPLICATE


@compiled
def is_number_of(server: PsState, ps: int) -> bool:
    """Return whether `ps` is the number of the server at one of its homes."""
    return ps & PS_MASK == server.header.ps and ps >> PS_BITS <= server.header.last_home


@compiled
def caller_of(h: Header) -> int:
    """Return the worker of a request, and above its bits the home that the request has passed.

    A worker has epochs of its own at each home, so a home that restarts often displaces no other one's epoch.
    """
    return caller_at(h.worker, h.ps)


@inlined
def caller_at(worker: int, ps: int) -> int:
    """Return the caller of a worker at the home where a PS has the number `ps`."""
    return worker | ps >> PS_BITS << WORKER_BITS


@compiled
def is_unknown_worker(server: PsState, h: Header) -> bool:
    return server.header.n_workers > 0 and not 1 <= h.worker <= server.header.n_workers


@compiled
def record_result(server: PsState, j: int, c: int, h: Header, added_lanes: int, refused_lanes: int) -> None:
    slot, caller = h.seq & SLOT_MASK, server.callers[c]
    caller.turns[slot] = h.seq >> WINDOW_BITS
    caller.added[slot] = added_lanes
    server.jobs[j].refused_lanes += popcount(refused_lanes & h.live)


@compiled
def write_answer(answer: Rpc, rpc: Rpc, h: Header, refused_lanes: int) -> int:
    """Write an answer except its two latencies; return its length in bytes."""
    flags = RESPONSE | VALUES if h.op == PULL else RESPONSE
    echo(answer, rpc)
    answer.flag_bits, answer.refused = swap16(flags), swap32(refused_lanes)
    return HEADER_BYTES + VALUE_BYTES * h.count * h.dim if h.op == PULL else HEADER_BYTES


@compiled
def unserved_lanes(_server: object, rpc: Rpc) -> int:
    return popcount(int64(rpc.live) & ~int64(rpc.served))


@compiled
def stamp(server: JobsState, answer: Rpc, ps_proc: int, ps_queue: int) -> None:
    """Write the PS's two latencies (ns) into an answer, and add the first to its job's counter."""
    answer.ps_proc, answer.ps_queue = swap32(min(ps_proc, MAX_U32)), swap32(min(max(ps_queue, 0), MAX_U32))
    server.jobs[find_job(server, swap16(answer.job))].proc_wall_ns += ps_proc


@compiled
def charge(server: JobsState, answer: Rpc, ns: int) -> None:
    server.jobs[find_job(server, swap16(answer.job))].proc_cpu_ns += ns


@compiled
def share_cpu(server: JobsState, ns: int) -> None:
    """Divide the CPU time of a burst (ns) among jobs, in proportion to their RPCs."""
    n_rpcs = 0
    for j in range(len(server.jobs)):
        n_rpcs += server.jobs[j].in_burst
    for j in range(len(server.jobs)):
        job = server.jobs[j]
        if job.in_burst:
            job.proc_cpu_ns += ns * job.in_burst // n_rpcs
            job.in_burst = 0


@compiled
def needs_room(server: PsState, datagrams: int) -> bool:
    # Each datagram may add two callers: its own, and in a query about a push the one that pushed.
    header = server.header
    if header.n_connection_records + datagrams > len(server.connection_records):
        return True
    return is_full(header.n_callers + 2 * datagrams, len(server.callers))


@compiled
def needs_no_room(_server: object, _datagrams: int) -> bool:
    """Return False, for servers without a table of callers and a connection log."""
    return False


@compiled
def is_full(callers: int, capacity: int) -> bool:
    return 4 * callers > 3 * capacity  # the load factor of the hash table is at most 3/4


@compiled
def hash_index_of(callers: Records[CallerRow], job: int, caller: int) -> int:
    # The primes spread callers, whose numbers are small and consecutive, over the table.
    return (caller * 31 + (caller >> WORKER_BITS) * 17 + job * 7) & len(callers) - 1


@compiled
def row_of(callers: Records[CallerRow], job: int, caller: int, epoch: int) -> int:
    """Return the index of a caller's row, or of the empty row for it."""
    index = hash_index_of(callers, job, caller)
    while True:
        row = callers[index]
        if not row.in_use or (row.caller == caller and row.job == job and row.epoch == epoch):
            return index
        index = (index + 1) & len(callers) - 1


@compiled
def find_caller(server: PsState, job: int, caller: int, epoch: int) -> int:
    """Return the index of a caller's row, which is added; NOTHING for an epoch that is not remembered."""
    index = row_of(server.callers, job, caller, epoch)
    if server.callers[index].in_use:
        return index
    n_epochs, oldest = epochs_of(server.callers, job, caller)
    if n_epochs < MAX_EPOCHS:
        server.header.n_callers += 1
    elif epoch < server.callers[oldest].epoch:
        return NOTHING
    else:
        index = oldest
    row = server.callers[index]
    row.in_use, row.job, row.caller, row.epoch = 1, job, caller, epoch
    for slot in range(WINDOW):
        row.turns[slot] = row.added[slot] = 0
    return index


@compiled
def epochs_of(callers: Records[CallerRow], job: int, caller: int) -> tuple[int, int]:
    """Return the number of a caller's epochs, and the index of the row of the smallest, or NOTHING."""
    index, n_epochs, oldest = hash_index_of(callers, job, caller), 0, NOTHING
    while callers[index].in_use:
        row = callers[index]
        if row.caller == caller and row.job == job:
            n_epochs += 1
            if oldest == NOTHING or row.epoch < callers[oldest].epoch:
                oldest = index
        index = (index + 1) & len(callers) - 1
    return n_epochs, oldest


@compiled
def find_job(server: JobsState, job: int) -> int:
    for j in range(len(server.jobs)):
        if server.jobs[j].job == job:
            return j
    return -1


_row_of = plain(row_of)
_is_full = plain(is_full)


def grow_state(server: P, datagrams: int) -> tuple[P, Records[ConnectionRecord]]:
    """Return a state with room for `datagrams` more, and the connection records [n] removed from it."""
    connection_records = server.connection_records[: server.header.n_connection_records]
    server.header.n_connection_records = 0
    empty_log = records(max(CONNECTION_RECORDS, datagrams), ConnectionRecord)
    server = with_arrays(server, connection_records=empty_log)
    while _is_full(int(server.header.n_callers) + 2 * datagrams, len(server.callers)):
        server = with_arrays(server, callers=_rehash(server.callers))
    return server, connection_records


def _rehash(callers: Records[CallerRow]) -> Records[CallerRow]:
    larger_table = records(2 * len(callers), CallerRow)
    for row in callers[callers.in_use == 1]:
        larger_table[_row_of(larger_table, row.job, row.caller, row.epoch)] = row
    return larger_table
