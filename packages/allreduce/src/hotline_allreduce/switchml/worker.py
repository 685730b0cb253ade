"""A SwitchML worker: an all-reduce, chunk by chunk, in a window that each result advances.

The result of a packet triggers the packet one batch later. Consecutive packets use consecutive slots of the
pool, in each of its two sets in turn. A packet of floats also has the exponent of the chunk one batch later,
so that all workers know that chunk's scale before they send it; the first batch has exponents only.
"""

from __future__ import annotations

import numpy as np

from foundation.designs.interface import NEVER, NOTHING, WorkerOps, register_worker_ops
from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import EMPTY, Rpc
from hosts.worker.window import back_off, next_resend, octets, queue_resend, time_round_trip
from hotline_allreduce.dense.vector import begin_operation, deadline, end_operation, has_stalled, log_row
from hotline_allreduce.switchml.floats import as_float, as_integer, chunk_exponent, scale_of
from hotline_allreduce.switchml.packet import OCTETS, VALUES
from hotline_allreduce.switchml.state import Reducer, ReducerHeader
from hotline_allreduce.switchml.wire import (
    chunk_of,
    exponent_of,
    is_result,
    missing_of,
    value_of,
    write_head,
    write_value,
)
from nativekit.compile import compiled, int64

TIMEOUT_NS = 1_000_000
"""Retransmission timeout of the published SwitchML."""
_SWITCH = 0  # as a peer: it has the first service address


@compiled
def start(state: Reducer, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation; an empty RPC sends a chunk of zeros."""
    size = begin_operation(state, op, iteration, n_keys)
    if op == EMPTY:
        state.vector[:VALUES] = 0
    if size:
        _begin_all_reduce(state, size)


@compiled
def _begin_all_reduce(state: Reducer, size: int) -> None:
    header = state.header
    header.chunks = (size + VALUES - 1) // VALUES
    header.batch_size = min(int64(header.window), int64(header.chunks))
    header.n_packets = header.chunks + (header.batch_size if header.is_float else 0)
    header.n_calls = header.pending = header.n_packets
    if header.published_timers:
        header.timeout = TIMEOUT_NS
    header.first_resend = header.queued_resends = 0
    for s in range(WINDOW):
        state.slots[s].busy = state.slots[s].queued = 0
    for packet in range(int64(header.batch_size)):
        _queue_packet(state, packet)


@compiled
def _queue_packet(state: Reducer, packet: int) -> None:
    """Queue a packet for its first transmission, in the slot of the packet a batch before."""
    s = packet % int64(state.header.batch_size)
    slot = state.slots[s]
    slot.busy, slot.call, slot.attempts, slot.deadline = 1, packet, 0, NEVER
    if not slot.queued:
        queue_resend(state, s, int64(state.header.queued_resends))


@compiled
def transmit(state: Reducer, now: int) -> int:
    header, s = state.header, next_resend(state)
    if s == NOTHING:
        return NOTHING
    slot = state.slots[s]
    if slot.attempts == 0:
        _encode_packet(state, int64(slot.call), state.sent[s])
        slot.t0 = slot.last_sent = now
        slot.attempts = 1
        slot.deadline = now + header.timeout
        header.due = min(int64(header.due), int64(slot.deadline))
        if header.last_arrival == 0:
            header.last_arrival = max(now, 1)  # 0 means that nothing was sent yet
    return s


@compiled
def _numbers(header: ReducerHeader) -> int:
    """Return the number of packet numbers: the largest of 32 bits of which a pass over both sets divides."""
    pass_length = 2 * int64(header.window)
    return (MAX_U32 + 1) // pass_length * pass_length


@compiled
def _encode_packet(state: Reducer, packet: int, rpc: Rpc) -> None:
    header = state.header
    workers, exponent, chunk = int64(header.workers), int64(0), packet
    if header.is_float:
        chunk -= int64(header.batch_size)
        if packet < header.chunks:
            exponent = chunk_exponent(state.floats, packet * VALUES, VALUES)
    number = (int64(header.first_packet) + packet) % _numbers(header)
    window = int64(header.window)
    position = number % (2 * window)
    write_head(
        rpc,
        int64(header.round_number),
        number,
        int64(header.first_slot) + position % window,
        position // window,
        exponent,
    )
    for i in range(VALUES):
        value = int64(0)
        if chunk >= 0:
            k = chunk * VALUES + i
            if header.is_float:
                value = as_integer(float(state.floats[k]), float(state.scales[chunk]), workers)
            else:
                value = int64(state.vector[k])
        write_value(rpc, i, value)


@compiled
def peer(_state: Reducer, _slot: int) -> int:
    return _SWITCH


@compiled
def wake(state: Reducer, now: int) -> None:
    header = state.header
    if now < header.due:
        return
    if has_stalled(state, now):
        header.queued_resends = 0
        return
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            if not header.published_timers:
                back_off(header, int64(slot.last_sent), now)
            slot.last_sent = now
            slot.attempts += 1
            header.retransmissions += 1
            if not slot.queued:
                queue_resend(state, s, int64(state.header.queued_resends))
    # In a second loop, as in `hosts.worker.window.retransmit`.
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + header.timeout
    header.due = deadline(state)


@compiled
def receive(state: Reducer, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if length != OCTETS:
        header.malformed += 1
        return NOTHING
    number, numbers = chunk_of(rpc), _numbers(header)
    packet = (number - int64(header.first_packet)) % numbers
    is_in_range = header.pending and number < numbers and packet < header.n_packets
    if not is_in_range or not is_result(rpc, length, int64(header.round_number)):
        header.unexpected += 1
        return NOTHING
    slot = state.slots[packet % int64(header.batch_size)]
    if not (slot.busy and slot.attempts and slot.call == packet):
        header.unexpected += 1
        return NOTHING
    if not header.published_timers:
        time_round_trip(state, slot, read)
    header.incomplete += missing_of(rpc) > 0
    _store_result(state, rpc, packet)
    row = log_row(state, slot, _SWITCH, OCTETS, VALUES, arrival, read)
    state.log[row].served = VALUES
    slot.busy = 0
    header.last_arrival = read
    header.pending -= 1
    if packet + header.batch_size < header.n_packets:
        _queue_packet(state, packet + int64(header.batch_size))
    if header.pending == 0:
        header.first_packet = (header.first_packet + header.n_packets) % numbers
        header.due = NEVER
        end_operation(state)
    return row


@compiled
def _store_result(state: Reducer, rpc: Rpc, packet: int) -> None:
    header, chunk = state.header, packet
    if header.is_float:
        chunk -= int64(header.batch_size)
    for i in range(VALUES if chunk >= 0 else 0):
        total = value_of(rpc, i)
        if header.is_float:
            state.floats[chunk * VALUES + i] = as_float(total, float(state.scales[chunk]))
        else:
            state.vector[chunk * VALUES + i] = np.uint32(total & MAX_U32)
    if header.is_float and packet < header.chunks:
        state.scales[packet] = scale_of(exponent_of(rpc), int64(header.workers))


WORKER = register_worker_ops(
    Reducer,
    WorkerOps(start, transmit, octets, peer, wake, deadline, receive),
)
