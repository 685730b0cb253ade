"""The window of SwitchML's workers, in which each result triggers the packet one batch later.

Consecutive packets use consecutive slots of the pool, in each of its two sets in turn. A packet of floats
also has the exponent of the chunk one batch later, so that all workers know that chunk's exponent before
they send it; the first batch has exponents only. `ChunkOps` are the functions in which designs differ: how
values become the words that the switch adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np
from typing_extensions import NamedTuple

from foundation.protocol.codec import MAX_U32, Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import EMPTY, Rpc
from hotline_agents.interface import NEVER, NOTHING, WorkerOps, register_worker_ops
from hotline_agents.worker.window import Slot, back_off, octets, time_round_trip
from hotline_allreduce.dense.vector import (
    VectorArrays,
    VectorHeader,
    VectorState,
    begin_operation,
    end_operation,
    has_stalled,
    log_row,
    open_vector,
)
from hotline_allreduce.switchml.packet import (
    HEADER_BYTES,
    SLOTS,
    VALUE_BYTES,
    chunk_of,
    exponent_of,
    is_result,
    missing_of,
    value_of,
    write_head,
    write_value,
)
from nativekit.compile import compiled, int64
from nativekit.generic import generics, implement
from nativekit.records import Ints, records

MAX_WINDOW = 256
"""Packets of a job in flight, as published: 64 of each of four threads. By default a job has `WINDOW`."""
TIMEOUT_NS = 1_000_000
"""Retransmission timeout of the published SwitchML."""
_SWITCH = 0  # as a peer: it has the first service address


class ReducerHeader(VectorHeader):
    """Scalars of the state; times in ns. A slot's `call` is the number of its packet in the pass."""

    OWN_FIELDS_FIRST = True  # `nativekit.records.dtype_of` has the reason

    first_slot: int  # the first of the job's slots in the switch
    first_packet: int  # number of the pass's first packet, counted across all-reduces
    packet_bytes: int
    words: int  # number of words of a packet that are added up
    chunks: int  # number of chunks of the pass
    batch_size: int  # maximum number of outstanding packets
    n_packets: int  # number of packets: one a chunk and, with exponents, first a batch without values
    has_exponents: int  # whether the pass begins with a batch of exponents
    incomplete: int  # number of results that lack the values of a worker
    published_timers: int  # whether the timeout is constant, as published for SwitchML


class ReducerState(VectorState, Protocol):
    @property
    def header(self) -> ReducerHeader: ...

    @property
    def exponents(self) -> Ints:
        """int64[N / values of a chunk]: exponent of each chunk, agreed on by all workers."""


S = TypeVar("S")
R = TypeVar("R", bound=ReducerState)


class ChunkOps(NamedTuple, Generic[S]):
    """Functions of a design between a chunk's values and the words of its packet, for states of class `S`."""

    chunk_count: Callable[[S], int]
    """(state): return the number of chunks of the pass that begins."""
    chunk_exponent: Callable[[S, int], int]
    """(state, chunk): return the exponent of a chunk's addends, -128 to 127."""
    encode: Callable[[S, int, Rpc], None]
    """(state, chunk, packet): write the words of a chunk."""
    store: Callable[[S, int, Rpc], None]
    """(state, chunk, result): store the sums of a chunk."""
    begins_pass: Callable[[S], bool]
    """(state): after a pass, return whether another one follows in the same operation, and prepare it."""


CHUNK_OPS: ChunkOps[ReducerState] = generics(ChunkOps)
chunk_count, chunk_exponent = CHUNK_OPS.chunk_count, CHUNK_OPS.chunk_exponent
encode, store, begins_pass = CHUNK_OPS.encode, CHUNK_OPS.store, CHUNK_OPS.begins_pass


def open_reducer(
    header: ReducerHeader,
    caller: Caller,
    n_ps: int,
    size: int,
    max_keys: int,
    window: int,
    words: int,
    packet_bytes: int,
) -> VectorArrays:
    """Return an idle worker's arrays, and fill in `header`; `size` is a multiple of a packet's values."""
    arrays = open_vector(header, caller, n_ps, size, max_keys, window, more_datagrams=MAX_WINDOW - WINDOW)
    arrays["slots"], arrays["resends"] = records(MAX_WINDOW, Slot), np.zeros(MAX_WINDOW, np.int64)
    header.first_slot = caller.job * MAX_WINDOW % SLOTS
    header.words, header.packet_bytes = words, packet_bytes
    arrays["slots"].length = packet_bytes  # all packets have this length
    return arrays


@compiled
def one_pass(_state: ReducerState) -> bool:
    """Return False, as `begins_pass` of a design whose operations have one pass."""
    return False


@compiled
def encode_integers(state: ReducerState, chunk: int, rpc: Rpc) -> None:
    words = state.header.words
    for i in range(words):
        write_value(rpc, i, int64(state.vector[chunk * words + i]))


@compiled
def store_integers(state: ReducerState, chunk: int, rpc: Rpc) -> None:
    words = state.header.words
    for i in range(words):
        state.vector[chunk * words + i] = np.uint32(value_of(rpc, i) & MAX_U32)


@compiled
def start(state: ReducerState, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation; an empty RPC sends a chunk of zeros."""
    size = begin_operation(state, op, iteration, n_keys)
    if op == EMPTY:
        state.vector[: state.header.words] = 0
    if size:
        state.header.has_exponents = state.header.is_float
        _begin_pass(state)


@compiled
def _begin_pass(state: ReducerState) -> None:
    header = state.header
    header.chunks = chunk_count(state)
    header.batch_size = min(header.window, header.chunks)
    header.n_packets = header.chunks + (header.batch_size if header.has_exponents else 0)
    header.pending = header.n_packets
    header.n_calls += header.n_packets
    if header.published_timers:
        header.timeout = TIMEOUT_NS
    header.first_resend = header.queued_resends = 0
    for s in range(MAX_WINDOW):
        state.slots[s].busy = state.slots[s].queued = 0
    for packet in range(header.batch_size):
        _queue_packet(state, packet)


@compiled
def _queue_packet(state: ReducerState, packet: int) -> None:
    """Queue a packet for its first transmission, in the slot of the packet a batch before."""
    s = packet % state.header.batch_size
    slot = state.slots[s]
    slot.busy, slot.call, slot.attempts, slot.deadline = 1, packet, 0, NEVER
    if not slot.queued:
        _queue_slot(state, s)


@compiled
def _queue_slot(state: ReducerState, s: int) -> None:
    header = state.header
    state.resends[(header.first_resend + header.queued_resends) % MAX_WINDOW] = s
    header.queued_resends += 1
    state.slots[s].queued = 1


@compiled
def _next_queued_slot(state: ReducerState) -> int:
    header = state.header
    while header.queued_resends:
        s = int64(state.resends[header.first_resend])
        header.first_resend = (header.first_resend + 1) % MAX_WINDOW
        header.queued_resends -= 1
        state.slots[s].queued = 0
        if state.slots[s].busy:  # otherwise its result has come in the meantime
            return s
    return NOTHING


@compiled
def transmit(state: ReducerState, now: int) -> int:
    header, s = state.header, _next_queued_slot(state)
    if s == NOTHING:
        return NOTHING
    slot = state.slots[s]
    if slot.attempts == 0:
        _encode_packet(state, slot.call, state.sent[s])
        slot.t0 = slot.last_sent = now
        slot.attempts = 1
        slot.deadline = now + header.timeout
        header.due = min(header.due, slot.deadline)
        if header.last_arrival == 0:
            header.last_arrival = max(now, 1)  # 0 means that nothing was sent yet
    return s


@compiled
def _numbers(header: ReducerHeader) -> int:
    """Return the number of packet numbers: the largest of 32 bits of which a pass over both sets divides."""
    pass_length = 2 * header.window
    return (MAX_U32 + 1) // pass_length * pass_length


@compiled
def _encode_packet(state: ReducerState, packet: int, rpc: Rpc) -> None:
    header = state.header
    exponent, chunk = 0, packet
    if header.has_exponents:
        chunk -= header.batch_size
        if packet < header.chunks:
            exponent = chunk_exponent(state, packet)
    number = (header.first_packet + packet) % _numbers(header)
    window = header.window
    position = number % (2 * window)
    write_head(
        rpc,
        header.words,
        header.round_number,
        number,
        header.first_slot + position % window,
        position // window,
        exponent,
    )
    if chunk >= 0:
        encode(state, chunk, rpc)
    else:
        for i in range((header.packet_bytes - HEADER_BYTES) // VALUE_BYTES):
            write_value(rpc, i, 0)


@compiled
def peer(_state: ReducerState, _slot: int) -> int:
    return _SWITCH


@compiled
def wake(state: ReducerState, now: int) -> None:
    header = state.header
    if now < header.due:
        return
    if has_stalled(state, now):
        header.queued_resends = 0
        return
    for s in range(header.batch_size):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            if not header.published_timers:
                back_off(header, slot.last_sent, now)
            slot.last_sent = now
            slot.attempts += 1
            header.retransmissions += 1
            if not slot.queued:
                _queue_slot(state, s)
    # In a second loop, as in `hotline_agents.worker.window.retransmit`.
    for s in range(header.batch_size):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + header.timeout
    header.due = deadline(state)


@compiled
def deadline(state: ReducerState) -> int:
    header = state.header
    if header.stalled or not header.pending:
        return NEVER
    earliest = header.last_arrival + header.stall_timeout if header.last_arrival else NEVER
    for s in range(header.batch_size):
        if state.slots[s].busy:
            earliest = min(earliest, state.slots[s].deadline)
    return earliest


@compiled
def receive(state: ReducerState, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if length != header.packet_bytes:
        header.malformed += 1
        return NOTHING
    number, numbers = chunk_of(rpc), _numbers(header)
    packet = (number - header.first_packet) % numbers
    is_in_range = header.pending and number < numbers and packet < header.n_packets
    if not is_in_range or not is_result(rpc, header.words, header.round_number):
        header.unexpected += 1
        return NOTHING
    slot = state.slots[packet % header.batch_size]
    if not (slot.busy and slot.attempts and slot.call == packet):
        header.unexpected += 1
        return NOTHING
    if not header.published_timers:
        time_round_trip(state, slot, read)
    header.incomplete += missing_of(rpc) > 0
    _store_result(state, rpc, packet)
    row = log_row(state, slot, _SWITCH, length, header.words, arrival, read)
    state.log[row].served = state.log[row].lanes
    slot.busy = 0
    header.last_arrival = read
    header.pending -= 1
    if packet + header.batch_size < header.n_packets:
        _queue_packet(state, packet + header.batch_size)
    if header.pending == 0:
        header.first_packet = (header.first_packet + header.n_packets) % numbers
        if begins_pass(state):
            header.has_exponents = 0
            _begin_pass(state)
        else:
            header.due = NEVER
            end_operation(state)
    return row


@compiled
def _store_result(state: ReducerState, rpc: Rpc, packet: int) -> None:
    header, chunk = state.header, packet
    if header.has_exponents:
        chunk -= header.batch_size
    if chunk >= 0:
        store(state, chunk, rpc)
    if header.has_exponents and packet < header.chunks:
        state.exponents[packet] = exponent_of(rpc)


WORKER: WorkerOps[ReducerState] = WorkerOps(
    start=start,
    transmit=transmit,
    octets=octets,
    peer=peer,
    wake=wake,
    deadline=deadline,
    receive=receive,
)


def register_reducer(state: type[R], ops: ChunkOps[R]) -> WorkerOps[ReducerState]:
    implement(state, CHUNK_OPS, ops)
    return register_worker_ops(state, WORKER)
