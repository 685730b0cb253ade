"""A worker of a ring: reduce-scatter, then all-gather, between the worker before it and the next one.

W workers cut the vector into W parts and take 2 (W - 1) steps. In step s worker i sends part i - s (mod W) to
worker i + 1, and takes part i - 1 - s from worker i - 1. In the first W - 1 steps it adds that part to its
own, in the other steps it replaces its own. A part is sent in chunks, each as soon as the chunk of the step
before has come, so links are busy all the time.

Each chunk is acknowledged. A duplicate is acknowledged again, and not added. An operation ends when all
chunks have come and all sent ones are acknowledged. A worker that has ended still acknowledges, because the
worker before it may wait for that. Chunks of the next vector that come before this worker starts to add it
up are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import MAX_U32, Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.keys import KeySpace
from hotline_agents.interface import NOTHING, WorkerOps, register_worker_ops
from hotline_agents.worker.window import Slot, next_resend
from hotline_allreduce.dense.packet import (
    ACK,
    ADDEND,
    HEADER_BYTES,
    MAX_WORKERS,
    MIN_SIZE,
    accumulate_words,
    as_packet,
    read_words,
    rounds_between,
    value_count,
    write_head,
)
from hotline_allreduce.dense.vector import (
    VectorHeader,
    begin_operation,
    belongs_to_job,
    belongs_to_vector,
    deadline,
    encode,
    end_operation,
    finish_chunk,
    open_vector,
    slot_of,
    take_next_slot,
    wake,
)
from nativekit.bits import swap32
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets, Records, Words, one_record, records

MAX_ACKS = 256
"""Maximum number of waiting acknowledgements; chunks that come while the queue is full are retransmitted."""
ACK_BUFFERS = 16
"""Number of acknowledgement buffers, more than a burst sends."""
_NO_FORM = 0  # form of the values of an acknowledgement, which has none


class MemberHeader(VectorHeader):
    OWN_FIELDS_FIRST = True  # `nativekit.records.dtype_of` has the reason

    part_size: int  # number of values of a part
    chunks_per_part: int  # number of chunks of a part
    next_ack: int  # index of the first entry of the ring buffer `waiting_acks`
    n_acks: int  # number of entries in that ring buffer
    next_buffer: int  # index of the acknowledgement buffer to fill next


class Ack:
    round_number: int  # number of the all-reduce
    chunk: int  # number of the chunk in it
    workers: int  # number of workers that add up their vectors


class EarlyLength:
    """Length of an early chunk in bytes; 0 if the entry is unused."""

    length: int


class RingMember(NamedTuple):
    """A worker's calls for one job (`VectorState`, `WindowState`); a slot's `call` is its chunk."""

    header: MemberHeader
    slots: Records[Slot]
    sent: Records[Rpc]  # [WINDOW + ACK_BUFFERS]: chunks by slot, then acknowledgements
    free: Ints
    resends: Ints
    chunk_received: Octets  # uint8[c]: whether each chunk has come, with room for 32 workers
    waiting_acks: Records[Ack]  # [MAX_ACKS], a ring buffer
    early_chunks: Records[Rpc]
    """[WINDOW]: received chunks of the next vector, whose all-reduce this worker has not begun."""
    early_lengths: Records[EarlyLength]  # [WINDOW]
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words
    vector: Words
    log: Records[RpcRow]


def make_member(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> RingMember:
    header = one_record(MemberHeader)
    # 2 (W - 1) steps of up to N / (W MIN_SIZE) + 2 chunks are at most 2 (N / MIN_SIZE + 2 W) for W workers.
    chunks = 2 * (space.size // MIN_SIZE + 2 * MAX_WORKERS)
    return RingMember(
        header=header,
        chunk_received=np.zeros(chunks, np.uint8),
        waiting_acks=records(MAX_ACKS, Ack),
        early_chunks=rpcs(WINDOW),
        early_lengths=records(WINDOW, EarlyLength),
        **open_vector(header, caller, n_ps, space.size, max_keys, window, ACK_BUFFERS),
    )


@compiled
def start(state: RingMember, op: int, iteration: int, n_keys: int) -> None:
    header = state.header
    n = begin_operation(state, op, iteration, n_keys)
    workers = header.workers
    header.part_size = (n + workers - 1) // workers
    header.chunks_per_part = (header.part_size + header.chunk_size - 1) // header.chunk_size
    # Chunks to send, and as many to receive; each is pending until it is acknowledged, or has come.
    header.n_calls = 2 * (workers - 1) * header.chunks_per_part
    header.pending = 2 * header.n_calls
    if n and header.n_calls == 0:  # a single worker has the sum already
        end_operation(state)
    if n == 0:
        return
    state.chunk_received[: header.n_calls] = 0
    for e in range(WINDOW):
        length = state.early_lengths[e].length
        state.early_lengths[e].length = 0
        if length and belongs_to_vector(state, state.early_chunks[e]):
            _handle_chunk(state, state.early_chunks[e], length)


@compiled
def transmit(state: RingMember, now: int) -> int:
    header = state.header
    if header.n_acks:
        return _encode_ack(state)
    if header.stalled or header.pending == 0:
        return NOTHING
    s = next_resend(state)
    chunk = header.first_unsent
    if s != NOTHING or chunk == header.n_calls or header.n_free == 0:
        return s
    if chunk >= header.chunks_per_part and not state.chunk_received[chunk - header.chunks_per_part]:
        return NOTHING
    s = take_next_slot(state, now)
    part = _rank(state) - chunk // header.chunks_per_part
    encode(state, s, _first_value(state, part, chunk), _value_count_of(state, part, chunk))
    return s


@compiled
def _rank(state: RingMember) -> int:
    return state.header.worker - 1


@compiled
def _worker_at(state: RingMember, distance: int) -> int:
    return (_rank(state) + distance + state.header.workers) % state.header.workers


@compiled
def _first_value(state: RingMember, part: int, chunk: int) -> int:
    header = state.header
    # `part` is at least 2 - 2 W: adding 2 W keeps the dividend positive.
    part = (part + 2 * header.workers) % header.workers
    return part * header.part_size + chunk % header.chunks_per_part * header.chunk_size


@compiled
def _value_count_of(state: RingMember, part: int, chunk: int) -> int:
    header = state.header
    first = _first_value(state, part, chunk)
    offset_in_part = chunk % header.chunks_per_part * header.chunk_size
    remaining = min(header.part_size - offset_in_part, header.n_values - first)
    return max(0, min(header.chunk_size, remaining))


@compiled
def _encode_ack(state: RingMember) -> int:
    header = state.header
    ack = state.waiting_acks[header.next_ack]
    header.next_ack = (header.next_ack + 1) % MAX_ACKS
    header.n_acks -= 1
    s = WINDOW + header.next_buffer
    header.next_buffer = (header.next_buffer + 1) % ACK_BUFFERS
    write_head(
        state.sent[s], ACK, _NO_FORM, header.job, _rank(state), ack.workers,
        header.chunk_size, ack.round_number, ack.chunk,
    )  # fmt: skip
    return s


@compiled
def octets(state: RingMember, s: int) -> int:
    return HEADER_BYTES if s >= WINDOW else int64(state.slots[s].length)


@compiled
def peer(state: RingMember, s: int) -> int:
    """Return the worker before this one for acknowledgements, and the next one for chunks."""
    return state.header.n_ps + _worker_at(state, -1 if s >= WINDOW else 1)


@compiled
def receive(state: RingMember, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Handle a chunk or an acknowledgement; return the log row of an acknowledged chunk, or NOTHING."""
    header = state.header
    if not belongs_to_job(state, rpc, length):
        return NOTHING
    packet = as_packet(rpc)
    if packet.kind == ACK:
        return _handle_ack(state, rpc, length, arrival, read)
    vectors_ahead = rounds_between(swap32(packet.round_number), header.round_number)
    if packet.kind != ADDEND or vectors_ahead > 1:
        header.unexpected += 1
    elif vectors_ahead == 1:
        _store_early_chunk(state, rpc, length)
    elif vectors_ahead < 0:
        _queue_ack(state, rpc)  # a duplicate of an earlier vector
    elif belongs_to_vector(state, rpc) and _handle_chunk(state, rpc, length):
        header.last_arrival = read
        if header.pending == 0:
            end_operation(state)
    return NOTHING


@compiled
def _store_early_chunk(state: RingMember, rpc: Rpc, length: int) -> None:
    """Store a chunk of the next vector; its sender has at most a window of outstanding chunks."""
    chunk = swap32(as_packet(rpc).chunk)
    if chunk < WINDOW:
        early_packet, packet = as_packet(state.early_chunks[chunk]), as_packet(rpc)
        early_packet.kind, early_packet.form = packet.kind, packet.form
        early_packet.job, early_packet.full_size = packet.job, packet.full_size
        early_packet.worker, early_packet.workers = packet.worker, packet.workers
        early_packet.round_number, early_packet.chunk = packet.round_number, packet.chunk
        for i in range(value_count(length)):
            early_packet.words[i] = packet.words[i]
        state.early_lengths[chunk].length = length


@compiled
def _handle_chunk(state: RingMember, rpc: Rpc, length: int) -> bool:
    """Add a chunk, or store a chunk of the sum; return False for a duplicate or an unexpected chunk."""
    header, packet = state.header, as_packet(rpc)
    chunk, count = swap32(packet.chunk), value_count(length)
    if chunk >= header.n_calls or packet.worker != _worker_at(state, -1):
        header.unexpected += 1
        return False
    step = chunk // header.chunks_per_part
    part = _rank(state) - 1 - step
    if count != _value_count_of(state, part, chunk):
        header.unexpected += 1
        return False
    _queue_ack(state, rpc)
    if state.chunk_received[chunk]:
        return False
    state.chunk_received[chunk] = 1
    header.pending -= 1
    if step < header.workers - 1:
        accumulate_words(rpc, state.vector, _first_value(state, part, chunk), count, header.is_float)
    else:
        read_words(rpc, state.vector, _first_value(state, part, chunk), count)
    return True


@compiled
def _queue_ack(state: RingMember, rpc: Rpc) -> None:
    header, packet = state.header, as_packet(rpc)
    if header.n_acks == MAX_ACKS:
        return
    ack = state.waiting_acks[(header.next_ack + header.n_acks) % MAX_ACKS]
    ack.round_number, ack.chunk = swap32(packet.round_number), swap32(packet.chunk)
    ack.workers = packet.workers
    header.n_acks += 1


@compiled
def _handle_ack(state: RingMember, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header, packet = state.header, as_packet(rpc)
    chunk = swap32(packet.chunk)
    is_current_round = swap32(packet.round_number) == header.round_number & MAX_U32
    is_current = is_current_round and packet.worker == _worker_at(state, 1)
    s = slot_of(state, chunk) if is_current else NOTHING
    if s == NOTHING:
        header.unexpected += 1
        return NOTHING
    count = value_count(int64(state.slots[s].length))
    return finish_chunk(state, s, _worker_at(state, 1), length, count, arrival, read)


WORKER = register_worker_ops(
    RingMember,
    WorkerOps(
        start=start,
        transmit=transmit,
        octets=octets,
        peer=peer,
        wake=wake,
        deadline=deadline,
        receive=receive,
    ),
)
