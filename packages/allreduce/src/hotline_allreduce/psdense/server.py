"""A server that adds up the chunks of its share, and answers all workers once all have pushed.

**When a round of a chunk is complete.** Each push has its round, its worker and the number of workers. The
server keeps a bit for each worker whose chunk it has added; the round is complete when all bits are set. A
chunk of a worker whose bit is set is not added again; its worker gets the sum again if the sum is complete.

**Why two sets of sums suffice.** A worker begins a round when it has all sums of the round before. A push of
round r shows that its worker has the sums of r - 1, so all workers have pushed in r - 1 and have the sums of
r - 2, which are needed no more. Rounds use the two sets alternately, and pushes of rounds older than a set's
are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foundation.optimisers import TableOptimiser
from foundation.protocol.rpc import BUFFER_BYTES, Rpc, rpcs
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER, NO_REPLY, NOTHING, ServerOps, register_server_ops
from hotline_agents.ps.rpcs import (
    ConnectionRecord,
    Job,
    PsHeader,
    charge,
    find_job,
    make_jobs,
    needs_no_room,
    share_cpu,
)
from hotline_agents.ps.share import Share, make_share
from hotline_agents.ps.values import Cell, make_cells
from hotline_agents.udp import BURST
from hotline_allreduce.dense.packet import (
    ADDEND,
    MAX_SIZE,
    MIN_SIZE,
    RESULT,
    accumulate_words,
    as_packet,
    is_valid,
    read_words,
    rounds_between,
    value_count,
    write_head,
    write_words,
)
from nativekit.bits import swap16, swap32
from nativekit.compile import compiled, int64
from nativekit.records import Int32, Records, RecordTable, UInt8, UInt16, UInt32, Words, one_record, records

_SETS_PER_JOB = 2


class AdderHeader(PsHeader):
    OWN_FIELDS_FIRST = True  # `nativekit.records.dtype_of` has the reason

    n_ps: int
    next_row: int
    """The first chunk whose sum must be sent, or NOTHING; `ChunkRow.next` links the next ones."""
    last_row: int
    next_datagram: int  # index of the next entry of `sent` and `destinations` to fill


class ChunkRow:
    round_number: UInt32
    seen: UInt32  # bitmap of the workers that have pushed
    unsent: UInt32  # bitmap of the workers that the sum must be sent to
    full_size: UInt16  # number of values of a full chunk
    count: UInt16  # number of values of this chunk
    form: UInt8  # type of the values: 0 int32, 1 float32
    workers: UInt8
    queued: UInt16  # whether the row is in the queue of sums to send
    next: Int32  # next row of that queue, or NOTHING


class Destination:
    length: int
    worker: int


class Adder(NamedTuple):
    """The state of a server; R is the maximum number of chunks of its share."""

    header: AdderHeader
    jobs: Records[Job]
    rows: Records[ChunkRow]  # [jobs * 2 * R]: both sets of each job
    sums: Words
    """uint32[jobs * 2, M]: the sums of a set, chunk after chunk, each with the space of a full chunk."""
    sent: Records[Rpc]  # [BURST]: datagrams of sums for workers that are not answered at once
    destinations: Records[Destination]  # [BURST]: by datagram; workers are numbered across all jobs
    cells: RecordTable[Cell]
    """[jobs, places + 1]: the cells of a share of one parameter; always 0, as workers hold the parameters."""
    connection_records: Records[ConnectionRecord]  # [1], not used
    share: Share


def make_adder(
    ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], _journal_bytes: int = 0,
    _tables: Sequence[TableOptimiser] = (),
) -> Adder:  # fmt: skip
    # Workers hold the parameters; no request asks a server for any.
    share = make_share(KeySpace(1), ps, n_ps)
    header = one_record(AdderHeader)
    header.ps, header.n_ps, header.due, header.next_row = ps, n_ps, NEVER, NOTHING
    rows = -(-space.size // (MIN_SIZE * n_ps))  # maximum number of chunks of a share, each of MIN_SIZE values
    # Chunks are dealt out whole, so a share may have up to one chunk more than its part of the values.
    set_size = rows * MIN_SIZE + MAX_SIZE
    return Adder(
        header,
        make_jobs(jobs),
        records(len(jobs) * _SETS_PER_JOB * rows, ChunkRow),
        np.zeros((len(jobs) * _SETS_PER_JOB, set_size), np.uint32),
        rpcs(BURST),
        records(BURST, Destination),
        make_cells(len(jobs), share),
        records(1, ConnectionRecord),
        share,
    )


@compiled
def handle(server: Adder, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    header = server.header
    if not is_valid(rpc, length):
        header.malformed += 1
        return NO_REPLY
    packet, count = as_packet(rpc), value_count(length)
    j, r = find_job(server, swap16(packet.job)), _row_of(server, rpc, count)
    if r == NOTHING:
        header.misdirected += 1
        return NO_REPLY
    job, row = server.jobs[j], server.rows[r]
    job.packets += 1
    job.bytes += length
    job.in_burst += 1
    age = rounds_between(swap32(packet.round_number), int64(row.round_number))
    bit = 1 << int64(packet.worker)
    if age < 0:
        job.stale += 1
        return NO_REPLY
    if age > 0:
        _start_round(server, r, rpc, count)
    elif not _fits_round(row, rpc, count):
        header.misdirected += 1
        return NO_REPLY
    elif int64(row.seen) & bit:
        job.duplicates += 1
        return _write_sum(server, r, int64(packet.worker), answer)
    else:
        sums = server.sums[_set_of(server, r)]
        accumulate_words(rpc, sums, _first_value(server, r), count, int64(row.form))
    job.rpcs += 1
    row.seen = int64(row.seen) | bit
    if not _is_complete(row):
        return NO_REPLY
    row.unsent = row.seen
    _queue_sum(server, r)
    return _write_sum(server, r, int64(packet.worker), answer)


@compiled
def _row_of(server: Adder, rpc: Rpc, count: int) -> int:
    header, packet = server.header, as_packet(rpc)
    j, chunk = find_job(server, swap16(packet.job)), swap32(packet.chunk)
    rows_per_set = _rows_per_set(server)
    row_in_set = chunk // header.n_ps
    is_for_this_server = j >= 0 and packet.kind == ADDEND and chunk % header.n_ps == header.ps
    end = row_in_set * swap16(packet.full_size) + count  # end of the chunk's values in its set
    if not is_for_this_server or count <= 0 or row_in_set >= rows_per_set or end > server.sums.shape[1]:
        return NOTHING
    return (_SETS_PER_JOB * j + (swap32(packet.round_number) & 1)) * rows_per_set + row_in_set


@compiled
def _fits_round(row: ChunkRow, rpc: Rpc, count: int) -> bool:
    packet = as_packet(rpc)
    return bool(
        row.count == count
        and row.full_size == swap16(packet.full_size)
        and row.form == packet.form
        and row.workers == packet.workers
    )


@compiled
def _start_round(server: Adder, r: int, rpc: Rpc, count: int) -> None:
    packet, row = as_packet(rpc), server.rows[r]
    row.round_number, row.seen, row.unsent = swap32(packet.round_number), 0, 0
    row.full_size, row.count = swap16(packet.full_size), count  # `_first_value` reads the size
    row.form, row.workers = packet.form, packet.workers
    read_words(rpc, server.sums[_set_of(server, r)], _first_value(server, r), count)


@compiled
def _rows_per_set(server: Adder) -> int:
    return len(server.rows) // len(server.sums)


@compiled
def _set_of(server: Adder, r: int) -> int:
    return r // _rows_per_set(server)


@compiled
def _first_value(server: Adder, r: int) -> int:
    return r % _rows_per_set(server) * int64(server.rows[r].full_size)


@compiled
def _is_complete(row: ChunkRow) -> bool:
    return int64(row.seen) == (1 << int64(row.workers)) - 1


@compiled
def _write_sum(server: Adder, r: int, worker: int, answer: Rpc) -> int:
    """Write the sum for a worker; return its length, NO_REPLY if it is not complete."""
    row = server.rows[r]
    if not _is_complete(row):
        return NO_REPLY
    row.unsent = int64(row.unsent) & ~(1 << worker)
    job = server.jobs[_set_of(server, r) // _SETS_PER_JOB].job
    chunk = r % _rows_per_set(server) * server.header.n_ps + server.header.ps
    write_head(
        answer, RESULT, int64(row.form), job, worker, int64(row.workers), int64(row.full_size),
        int64(row.round_number), chunk,
    )  # fmt: skip
    return write_words(answer, server.sums[_set_of(server, r)], _first_value(server, r), int64(row.count))


@compiled
def _queue_sum(server: Adder, r: int) -> None:
    header, row = server.header, server.rows[r]
    if row.queued:
        return
    row.queued, row.next = 1, NOTHING
    if header.next_row == NOTHING:
        header.next_row = r
    else:
        server.rows[header.last_row].next = r
    header.last_row = r


@compiled
def transmit(server: Adder, now: int) -> int:
    header = server.header
    while header.next_row != NOTHING:
        row = server.rows[header.next_row]
        if row.unsent:
            worker = 0
            while not int64(row.unsent) >> worker & 1:
                worker += 1
            s = header.next_datagram
            header.next_datagram = (s + 1) % BURST
            server.destinations[s].length = _write_sum(server, header.next_row, worker, server.sent[s])
            job = _set_of(server, header.next_row) // _SETS_PER_JOB
            server.destinations[s].worker = job * int64(row.workers) + worker
            return s
        row.queued, header.next_row = 0, int64(row.next)
    return NOTHING


@compiled
def address(server: Adder, s: int) -> int:
    return int64(server.sent.ctypes.data) + s * BUFFER_BYTES


@compiled
def octets(server: Adder, s: int) -> int:
    return server.destinations[s].length


@compiled
def peer(server: Adder, s: int) -> int:
    return server.header.n_ps + server.destinations[s].worker  # peers: the servers, then the workers


@compiled
def lanes(_server: Adder, rpc: Rpc) -> int:
    return swap16(as_packet(rpc).full_size)


@compiled
def stamp(server: Adder, answer: Rpc, ps_proc: int, ps_queue: int) -> None:
    server.jobs[find_job(server, swap16(as_packet(answer).job))].proc_wall_ns += ps_proc


# `charge` is that of RPCs: dense packets have `job` at the same offset.
SERVER = register_server_ops(
    Adder,
    ServerOps(
        handle=handle,
        lanes=lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_no_room,
        transmit=transmit,
        address=address,
        octets=octets,
        peer=peer,
    ),
)
