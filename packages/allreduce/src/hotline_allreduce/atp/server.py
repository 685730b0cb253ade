"""An ATP server, which adds up packets that the switch does not, and acknowledges complete chunks.

The rules are those of `hotline_allreduce.atp.model.rules`. A server serves the all-reduces whose number
modulo the number of servers is the server's number. It stores the last two of each job; the older is used
only with `check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.optimisers import TableOptimiser
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER, NO_REPLY, NOTHING, ServerOps, register_server_ops
from hotline_agents.ps.rpcs import (
    ConnectionRecord,
    Job,
    PsHeader,
    find_job,
    make_jobs,
    needs_no_room,
    share_cpu,
)
from hotline_agents.ps.share import Share, make_share
from hotline_agents.ps.values import Cell, make_cells
from hotline_allreduce.atp.design import settings_of_job
from hotline_allreduce.atp.packet import (
    ACK,
    CELLS,
    COLLISION,
    OCTETS,
    OVERFLOW,
    RESEND,
    VALUES,
    app_of,
    bitmap_of,
    cell_of,
    flags_of,
    key_of,
    length_of,
    sequence_of,
    value_of,
    workers_of,
    write_head,
    write_value,
)
from hotline_allreduce.dense.packet import add_words
from nativekit.compile import compiled, int64
from nativekit.records import Records, RecordTable, UInt8, UInt32, Words, one_record, records

_TENSORS_PER_JOB = 2
_ACKNOWLEDGEMENT_BITMAP = 1  # workers do not read it
_SATURATED_MAX, _SATURATED_MIN = 2**31 - 1, 2**31
"""The largest and smallest int32, as words: the switch saturates sums at them."""


class AtpTensor:
    key: int  # number of the tensor's all-reduce; -1 for none
    workers: int
    chunks: int
    remaining: int  # number of chunks that are not complete


class JobState:
    check: int  # the job's setting `check`: whether only a larger key begins a tensor
    current: int  # which of its two tensors is the current one
    next_spare: int  # index of the next cell to try in `AtpServer.spare_cells`


class AtpChunk:
    bitmap: UInt32
    is_float: UInt8
    is_collided: UInt8


class AtpServer(NamedTuple):
    """The state of a server; R is the maximum number of chunks of an all-reduce."""

    header: PsHeader
    jobs: Records[Job]
    job_states: Records[JobState]  # [jobs]
    tensors: Records[AtpTensor]  # [jobs * 2]
    chunks: RecordTable[AtpChunk]  # [jobs * 2, R]
    sums: Words  # uint32[jobs * 2, R * VALUES]
    is_used: NDArray[np.uint8]  # uint8[jobs, CELLS]: whether a packet named the cell, or it replaces another
    replacements: NDArray[np.int32]  # int32[jobs, CELLS]: a collided cell's replacement plus 1; 0 for none
    spare_cells: NDArray[np.int32]  # int32[jobs, CELLS]: the cells in the order in which they replace others
    cells: RecordTable[Cell]
    """[jobs, places + 1]: not the switch's, but of a parameter; always 0, as workers hold the parameters."""
    connection_records: Records[ConnectionRecord]  # [1], not used
    share: Share


def make_server(
    ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], _journal_bytes: int = 0,
    _tables: Sequence[TableOptimiser] = (),
) -> AtpServer:  # fmt: skip
    share = make_share(KeySpace(1), ps, n_ps)
    header = one_record(PsHeader)
    header.ps, header.due = ps, NEVER
    chunks = -(-space.size // VALUES)
    tensors, job_states = records(len(jobs) * _TENSORS_PER_JOB, AtpTensor), records(len(jobs), JobState)
    tensors.key = -1
    job_states.check = [settings_of_job(job).check for job in jobs]
    return AtpServer(
        header,
        make_jobs(jobs),
        job_states,
        tensors,
        records((len(jobs) * _TENSORS_PER_JOB, chunks), AtpChunk),
        np.zeros((len(jobs) * _TENSORS_PER_JOB, chunks * VALUES), np.uint32),
        np.zeros((len(jobs), CELLS), np.uint8),
        np.zeros((len(jobs), CELLS), np.int32),
        np.array([np.random.default_rng([ps, job]).permutation(CELLS) for job in jobs], np.int32),
        make_cells(len(jobs), share),
        records(1, ConnectionRecord),
        share,
    )


@compiled
def handle(server: AtpServer, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    header = server.header
    if length != OCTETS:
        header.malformed += 1
        return NO_REPLY
    j, cell, flags = find_job(server, app_of(rpc)), cell_of(rpc), flags_of(rpc)
    chunk, chunks = sequence_of(rpc) - 1, _chunks_of(rpc)
    if j < 0 or cell >= CELLS or flags & ACK or not 0 <= chunk < chunks <= server.chunks.shape[1]:
        header.misdirected += 1
        return NO_REPLY
    job = server.jobs[j]
    job.packets += 1
    job.bytes += length
    job.in_burst += 1
    server.is_used[j, cell] = 1
    t = _tensor_of(server, j, rpc)
    if t == NOTHING or chunk >= server.tensors[t].chunks:
        job.stale += 1
        return NO_REPLY
    if flags & COLLISION:
        server.chunks[t, chunk].is_collided = 1
    if _needs_floats(server, t, chunk, rpc, flags):
        job.overflows += 1
        _request_floats(rpc, answer)
        return OCTETS
    _add_values(server, j, t, chunk, rpc, flags)
    if not _is_complete(server, t, chunk):
        return NO_REPLY
    _acknowledge(server, j, t, chunk, rpc, answer, flags)
    return OCTETS


@compiled
def _tensor_of(server: AtpServer, j: int, rpc: Rpc) -> int:
    """Return the index of a packet's tensor, or NOTHING; a new key begins a tensor."""
    job_state, key = server.job_states[j], key_of(rpc)
    t = j * _TENSORS_PER_JOB + job_state.current
    current = server.tensors[t]
    is_newer = key > current.key if job_state.check else key != current.key
    if is_newer and (job_state.check or current.remaining == 0):
        job_state.current = 1 - job_state.current  # the older of the two makes room for the new tensor
        t = j * _TENSORS_PER_JOB + job_state.current
        _begin_tensor(server, t, rpc)
    elif job_state.check and key != current.key:
        t = j * _TENSORS_PER_JOB + 1 - job_state.current
        return t if server.tensors[t].key == key else NOTHING
    return t


@compiled
def _chunks_of(rpc: Rpc) -> int:
    return (length_of(rpc) + VALUES - 1) // VALUES


@compiled
def _begin_tensor(server: AtpServer, t: int, rpc: Rpc) -> None:
    tensor = server.tensors[t]
    tensor.key, tensor.workers = key_of(rpc), workers_of(rpc)
    tensor.chunks = tensor.remaining = _chunks_of(rpc)
    for chunk in range(tensor.chunks):
        chunk_record = server.chunks[t, chunk]
        chunk_record.bitmap, chunk_record.is_float, chunk_record.is_collided = 0, 0, 0


@compiled
def _needs_floats(server: AtpServer, t: int, chunk: int, rpc: Rpc, flags: int) -> bool:
    """Return whether to request floats; the first overflow of a chunk discards its integer sums."""
    chunk_record = server.chunks[t, chunk]
    if not (flags & OVERFLOW or _is_saturated(rpc)):
        # All workers have been asked for floats; a resent integer shows that the request may be lost.
        return bool(chunk_record.is_float and flags & RESEND)
    if not chunk_record.is_float:
        if _is_complete(server, t, chunk):  # its bitmap is reset below
            server.tensors[t].remaining += 1
        chunk_record.is_float, chunk_record.bitmap = 1, 0
    return not (flags & OVERFLOW and flags & RESEND)  # only resent floats are added


@compiled
def _is_saturated(rpc: Rpc) -> bool:
    n_saturated = 0
    for i in range(VALUES):
        n_saturated += value_of(rpc, i) in (_SATURATED_MAX, _SATURATED_MIN)
    return n_saturated > 0


@compiled
def _add_values(server: AtpServer, j: int, t: int, chunk: int, rpc: Rpc, flags: int) -> None:
    chunk_record, bitmap = server.chunks[t, chunk], bitmap_of(rpc)
    # A packet with OVERFLOW also has RESEND here; others are answered with a request (`_needs_floats`).
    was_complete, is_float = _is_complete(server, t, chunk), int64(flags & OVERFLOW != 0)
    # A full bitmap means a sum of the switch, which replaces what was added here.
    is_full = bitmap == (1 << server.tensors[t].workers) - 1
    if not is_full and (chunk_record.is_float != is_float or int64(chunk_record.bitmap) & bitmap):
        server.jobs[j].duplicates += 1
        return
    server.jobs[j].rpcs += 1
    first = chunk * VALUES
    for i in range(VALUES):
        word = value_of(rpc, i)
        if chunk_record.bitmap and not is_full:
            word = add_words(int64(server.sums[t, first + i]), word, is_float)
        server.sums[t, first + i] = np.uint32(word)
    chunk_record.bitmap = bitmap if is_full else int64(chunk_record.bitmap) | bitmap
    if not was_complete and _is_complete(server, t, chunk):
        server.tensors[t].remaining -= 1


@compiled
def _is_complete(server: AtpServer, t: int, chunk: int) -> bool:
    return int64(server.chunks[t, chunk].bitmap) == (1 << server.tensors[t].workers) - 1


@compiled
def _acknowledge(server: AtpServer, j: int, t: int, chunk: int, rpc: Rpc, answer: Rpc, flags: int) -> None:
    flags, length = flags & ~COLLISION | ACK, length_of(rpc)
    if server.chunks[t, chunk].is_float:
        flags |= OVERFLOW | RESEND
    if server.chunks[t, chunk].is_collided:
        # An acknowledgement with COLLISION has the replacement cell in the field `length`.
        flags, length = flags | COLLISION, _replacement_cell_of(server, j, cell_of(rpc))
    _write_answer_head(rpc, answer, flags, length)
    for i in range(VALUES):
        write_value(answer, i, int64(server.sums[t, chunk * VALUES + i]))


@compiled
def _request_floats(rpc: Rpc, answer: Rpc) -> None:
    _write_answer_head(rpc, answer, flags_of(rpc) & ~RESEND | ACK | OVERFLOW, length_of(rpc))
    for i in range(VALUES):
        write_value(answer, i, value_of(rpc, i))


@compiled
def _write_answer_head(rpc: Rpc, answer: Rpc, flags: int, length: int) -> None:
    app, sequence, cell, key = app_of(rpc), sequence_of(rpc), cell_of(rpc), key_of(rpc)
    write_head(answer, _ACKNOWLEDGEMENT_BITMAP, workers_of(rpc), flags, app, sequence, cell, key, length)


@compiled
def _replacement_cell_of(server: AtpServer, j: int, cell: int) -> int:
    """Return the cell that replaces the collided `cell`, or `cell` itself if no spare cell is left."""
    job_state = server.job_states[j]
    while not server.replacements[j, cell] and job_state.next_spare < CELLS:
        spare = int64(server.spare_cells[j, job_state.next_spare])
        job_state.next_spare += 1
        if not server.is_used[j, spare]:
            server.is_used[j, spare] = 1
            server.replacements[j, cell] = spare + 1
    return int64(server.replacements[j, cell]) - 1 if server.replacements[j, cell] else cell


@compiled
def lanes(_server: AtpServer, _rpc: Rpc) -> int:
    return VALUES


@compiled
def stamp(server: AtpServer, answer: Rpc, ps_proc: int, ps_queue: int) -> None:
    """Add the processing time (ns) to the job's counter; a packet has no fields for it."""
    server.jobs[find_job(server, app_of(answer))].proc_wall_ns += ps_proc


@compiled
def charge(server: AtpServer, answer: Rpc, ns: int) -> None:
    server.jobs[find_job(server, app_of(answer))].proc_cpu_ns += ns


SERVER = register_server_ops(
    AtpServer,
    ServerOps(
        handle=handle,
        lanes=lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_no_room,
    ),
)
