"""A worker's vector in designs with dense vectors: operations, chunks, timeouts. N is the vector's size."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from foundation.logs.rpc_row import ROW
from foundation.protocol.codec import MAX_U32, Caller
from foundation.protocol.rpc import EMPTY, PULL, PUSH, Rpc
from hotline_agents.interface import NEVER, NOTHING
from hotline_agents.worker.window import (
    CallArrays,
    OperandState,
    Slot,
    WindowHeader,
    WindowState,
    earliest_deadline,
    open_calls,
    push_free,
    retransmit,
    take_slot,
    time_round_trip,
)
from hotline_allreduce.dense.packet import ADDEND, SIZE, as_packet, is_valid, write_head, write_words
from nativekit.bits import swap16, swap32
from nativekit.compile import compiled
from nativekit.records import Words

INTEGERS, FLOATS = 5, 6  # after the numbers of `Op`
"""Additional operations of the all-reduce designs: an all-reduce of integers, or of floats."""
STALL_TIMEOUT_NS = 10_000_000_000
"""Time without any arrival after which an operation counts as stalled, in ns."""


class VectorHeader(WindowHeader):
    """Scalars of the state in designs with dense vectors; times in ns."""

    n_ps: int
    workers: int
    op: int
    iteration: int
    n_keys: int
    n_values: int  # number of values of the vector of the current operation
    chunk_size: int  # number of values of a full chunk
    is_float: int
    round_number: int  # number of the all-reduce, from 1 on
    n_calls: int  # number of packets that this worker sends in the operation
    pending: int  # number of packets that have not come or are not acknowledged
    first_unsent: int  # the first packet that has not been sent
    last_arrival: int  # time of the first transmission or of the last arrival; 0 before
    stall_timeout: int  # time without an arrival after which an operation has stalled
    stalled: int  # whether the operation has stalled
    stalled_at: int  # time at which the operation stalled


class VectorState(WindowState, OperandState, Protocol):
    @property
    def header(self) -> VectorHeader: ...

    @property
    def vector(self) -> Words:
        """uint32[N]: this worker's addends, which the sums replace."""

    @property
    def model(self) -> Words:
        """uint32[N]: the parameters, the same at all workers."""


_MAX_LANES = np.iinfo(ROW["lanes"]).max


class VectorArrays(CallArrays):
    model: Words
    vector: Words


def open_vector(
    header: VectorHeader,
    caller: Caller,
    n_ps: int,
    size: int,
    max_keys: int,
    window: int,
    more_datagrams: int = 0,
) -> VectorArrays:
    """Return an idle worker's arrays, and fill in `header`; `more_datagrams` buffers follow the slots."""
    header.n_ps, header.workers, header.chunk_size, header.stall_timeout = n_ps, 1, SIZE, STALL_TIMEOUT_NS
    arrays = open_calls(header, caller, max_keys, window, more_datagrams)
    header.issue_limit = NEVER  # packets carry no sequence numbers
    return {
        **arrays,
        "model": np.zeros(size, np.uint32),
        "vector": np.zeros(size, np.uint32),
    }


@compiled
def begin_operation(state: VectorState, op: int, iteration: int, n_keys: int) -> int:
    """Begin an operation; return the number of values to add up, 0 for a pull, which ends at once.

    A pull reads the worker's own model; a push adds the deltas of all workers to it. EMPTY adds up a
    single 0; other operations add up the first `n_keys` values of the vector.
    """
    header = state.header
    header.op, header.iteration, header.n_keys, header.n_values = op, iteration, n_keys, n_keys
    header.n_calls = header.first_unsent = 0
    if op == PULL:
        for i in range(n_keys):
            state.values[i] = state.model[state.positions[i]]
        return 0
    if op == PUSH:
        header.n_values = len(state.vector)
        state.vector[:] = 0
        for i in range(n_keys):
            state.vector[state.positions[i]] = state.deltas[i]
    elif op == EMPTY:
        header.n_values, header.n_keys = 1, 0
        state.vector[0] = 0
    header.is_float = op == FLOATS
    header.round_number += 1
    header.last_arrival = header.stalled = 0
    return header.n_values


@compiled
def end_operation(state: VectorState) -> None:
    header = state.header
    if header.op == PUSH:
        for position in range(len(state.vector)):
            state.model[position] += state.vector[position]
        for i in range(header.n_keys):
            state.answered[i] = True


@compiled
def belongs_to_job(state: VectorState, rpc: Rpc, length: int) -> bool:
    """Return whether a datagram is a packet of this worker's job; count other datagrams."""
    header = state.header
    if not is_valid(rpc, length):
        header.malformed += 1
        return False
    if swap16(as_packet(rpc).job) != header.job:
        header.unexpected += 1
        return False
    return True


@compiled
def belongs_to_vector(state: VectorState, rpc: Rpc) -> bool:
    header, packet = state.header, as_packet(rpc)
    return bool(
        swap32(packet.round_number) == header.round_number & MAX_U32
        and packet.workers == header.workers
        and swap16(packet.full_size) == header.chunk_size
        and packet.form == header.is_float
    )


@compiled
def slot_of(state: VectorState, chunk: int) -> int:
    for s in range(len(state.slots)):
        if state.slots[s].busy and state.slots[s].call == chunk:
            return s
    return NOTHING


@compiled
def log_row(
    state: VectorState, slot: Slot, peer: int, length: int, count: int, arrival: int, read: int
) -> int:
    """Write the log row of an answered packet except `w_proc`; return its index. The log must have room."""
    r = state.header.rows
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = 0, 0, 0
    row.iteration, row.ps, row.op = state.header.iteration, peer, PUSH
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = min(count, _MAX_LANES), 0, slot.attempts
    state.header.rows += 1
    return r


@compiled
def has_stalled(state: VectorState, now: int) -> bool:
    """Return whether no packet arrived for `header.stall_timeout` ns; a stalled operation is given up."""
    header = state.header
    is_waiting = header.pending and header.last_arrival and not header.stalled
    if is_waiting and now - header.last_arrival >= header.stall_timeout:
        header.stalled, header.stalled_at, header.due = 1, now, NEVER
    return bool(header.stalled)


@compiled
def wake(state: VectorState, now: int) -> None:
    if now >= state.header.due and not has_stalled(state, now):
        retransmit(state, now)
        state.header.due = deadline(state)


@compiled
def deadline(state: VectorState) -> int:
    header = state.header
    if header.stalled:
        return NEVER
    if not (header.pending and header.last_arrival):
        return earliest_deadline(state)
    return min(earliest_deadline(state), header.last_arrival + header.stall_timeout)


@compiled
def take_next_slot(state: VectorState, now: int) -> int:
    """Take a slot for the next chunk, whose number is its `call`; return its index. A slot must be free."""
    header = state.header
    s = take_slot(state, header.first_unsent, now)
    header.first_unsent += 1
    if header.last_arrival == 0:
        header.last_arrival = max(now, 1)  # 0 means that nothing was sent yet
        header.due = min(header.due, header.last_arrival + header.stall_timeout)
    return s


@compiled
def encode(state: VectorState, s: int, first: int, count: int) -> None:
    header, slot, rpc = state.header, state.slots[s], state.sent[s]
    write_head(
        rpc, ADDEND, header.is_float, header.job, header.worker - 1,
        header.workers, header.chunk_size, header.round_number, slot.call,
    )  # fmt: skip
    slot.length = write_words(rpc, state.vector, first, count)


@compiled
def finish_chunk(
    state: VectorState, s: int, peer: int, length: int, count: int, arrival: int, read: int
) -> int:
    header, slot = state.header, state.slots[s]
    time_round_trip(state, slot, read)
    row = log_row(state, slot, peer, length, count, arrival, read)
    slot.busy = 0
    push_free(state, slot.seq)  # packets carry chunks of rounds, and no sequence numbers
    header.last_arrival = read
    header.pending -= 1
    if header.pending == 0:
        end_operation(state)
    return row
