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
from foundation.protocol.rpc import EMPTY, PULL, PUSH, Rpc
from hosts.switchml.floats import as_float, as_integer, chunk_exponent, scale_of
from hosts.switchml.packet import OCTETS, VALUES
from hosts.switchml.state import PacketSlot, Reducer
from hosts.switchml.wire import (
    chunk_of,
    exponent_of,
    is_result,
    missing_of,
    value_of,
    write_head,
    write_value,
)
from hosts.worker.timer import back_off, sample_round_trip
from hosts.worker.vectors import FLOATS
from nativekit.compile import compiled, int64

TIMEOUT_NS = 1_000_000
"""Retransmission timeout of the published SwitchML."""


@compiled
def start(state: Reducer, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation as `hosts.dense.vector.begin_operation`, but an empty RPC sends a chunk of zeros."""
    header = state.header
    header.op, header.iteration, header.n_keys = op, iteration, n_keys
    size = n_keys
    if op == PULL:
        header.calls = 0
        for i in range(n_keys):
            state.values[i] = state.model[state.positions[i]]
        return
    if op == PUSH:
        size = len(state.addend)
        state.addend[:] = 0
        for i in range(n_keys):
            state.addend[state.positions[i]] = np.int32(state.deltas[i])
    elif op == EMPTY:
        size, header.n_keys = VALUES, 0
        state.addend[:VALUES] = 0
    _begin_all_reduce(state, size)


@compiled
def _begin_all_reduce(state: Reducer, size: int) -> None:
    header = state.header
    header.is_float = header.op == FLOATS
    header.chunks = (size + VALUES - 1) // VALUES
    header.batch = min(int64(header.window), int64(header.chunks))
    header.n_packets = header.chunks + (header.batch if header.is_float else 0)
    header.calls = header.pending = header.n_packets
    header.number += 1
    if header.published_timers:
        header.timeout = TIMEOUT_NS
    header.last_arrival = header.stalled = header.next_ready = header.n_ready = 0
    for s in range(WINDOW):
        state.slots[s].busy = state.slots[s].queued = 0
    for packet in range(int64(header.batch)):
        _queue_packet(state, packet)


@compiled
def _queue_packet(state: Reducer, packet: int) -> None:
    """Queue a packet for its first transmission, in the slot of the packet a batch before."""
    s = packet % int64(state.header.batch)
    slot = state.slots[s]
    slot.busy, slot.packet, slot.attempts = 1, packet, 0
    if not slot.queued:
        _queue_slot(state, s)


@compiled
def _queue_slot(state: Reducer, s: int) -> None:
    header = state.header
    state.ring[(header.next_ready + header.n_ready) % WINDOW] = s
    header.n_ready += 1
    state.slots[s].queued = 1


@compiled
def transmit(state: Reducer, now: int) -> int:
    header = state.header
    while header.n_ready:
        s = int64(state.ring[header.next_ready])
        header.next_ready = (header.next_ready + 1) % WINDOW
        header.n_ready -= 1
        slot = state.slots[s]
        slot.queued = 0
        if not slot.busy:  # its packet was answered in the meantime
            continue
        if slot.attempts == 0:
            _encode_packet(state, int64(slot.packet), state.sent[s])
            slot.t0 = slot.sent = now
            slot.attempts = 1
            slot.deadline = now + header.timeout
            header.due = min(int64(header.due), int64(slot.deadline))
            if header.last_arrival == 0:
                header.last_arrival = max(now, 1)  # 0 means that nothing was sent yet
        return s
    return NOTHING


@compiled
def _encode_packet(state: Reducer, packet: int, rpc: Rpc) -> None:
    header = state.header
    workers, exponent, chunk = int64(header.workers), int64(0), packet
    if header.is_float:
        chunk -= int64(header.batch)
        if packet < header.chunks:
            exponent = chunk_exponent(state.floats, packet * VALUES, VALUES)
    number = (int64(header.first_packet) + packet) & MAX_U32
    window = int64(header.window)
    position = number % (2 * window)
    write_head(
        rpc,
        int64(header.number),
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
                value = int64(state.addend[k])
        write_value(rpc, i, value)


@compiled
def octets(_state: Reducer, _slot: int) -> int:
    return OCTETS


@compiled
def peer(_state: Reducer, _slot: int) -> int:
    """Return 0, the switch: it has the first service address."""
    return 0


@compiled
def wake(state: Reducer, now: int) -> None:
    header = state.header
    if now < header.due:
        return
    if header.pending and now - header.last_arrival >= header.stall_timeout:
        header.stalled, header.stalled_at, header.n_ready, header.due = 1, now, 0, NEVER
        return
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.attempts and slot.deadline <= now:
            if not header.published_timers:
                back_off(header, int64(slot.sent), now)
            slot.sent = now
            slot.attempts += 1
            header.retransmissions += 1
            if not slot.queued:
                _queue_slot(state, s)
    # In a second loop, as in `hosts.worker.window.retransmit`.
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.attempts and slot.deadline <= now:
            slot.deadline = now + header.timeout
    header.due = deadline(state)


@compiled
def deadline(state: Reducer) -> int:
    header, due = state.header, int64(NEVER)
    if header.stalled:
        return due
    for s in range(WINDOW):
        if state.slots[s].busy and state.slots[s].attempts:
            due = min(due, int64(state.slots[s].deadline))
    if header.pending and header.last_arrival:
        due = min(due, int64(header.last_arrival + header.stall_timeout))
    return due


@compiled
def receive(state: Reducer, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if length != OCTETS:
        header.malformed += 1
        return NOTHING
    packet = (chunk_of(rpc) - int64(header.first_packet)) & MAX_U32
    if header.pending == 0 or packet >= header.n_packets or not is_result(rpc, length, int64(header.number)):
        header.unexpected += 1
        return NOTHING
    slot = state.slots[packet % int64(header.batch)]
    if not (slot.busy and slot.attempts and slot.packet == packet):
        header.unexpected += 1
        return NOTHING
    if slot.attempts == 1 and not header.published_timers:
        sample_round_trip(header, read - slot.t0)
    header.incomplete += missing_of(rpc) > 0
    _store_result(state, rpc, packet)
    row = _log_result(state, slot, arrival, read)
    slot.busy = 0
    header.last_arrival = read
    header.pending -= 1
    if packet + header.batch < header.n_packets:
        _queue_packet(state, packet + int64(header.batch))
    if header.pending == 0:
        _end_all_reduce(state)
    return row


@compiled
def _store_result(state: Reducer, rpc: Rpc, packet: int) -> None:
    header, chunk = state.header, packet
    if header.is_float:
        chunk -= int64(header.batch)
    for i in range(VALUES if chunk >= 0 else 0):
        total = value_of(rpc, i)
        if header.is_float:
            state.floats[chunk * VALUES + i] = as_float(total, float(state.scales[chunk]))
        else:
            state.sums[chunk * VALUES + i] = total
    if header.is_float and packet < header.chunks:
        state.scales[packet] = scale_of(exponent_of(rpc), int64(header.workers))


@compiled
def _log_result(state: Reducer, slot: PacketSlot, arrival: int, read: int) -> int:
    """Write the log row of a result except `w_proc`; return its index. There must be room."""
    r = int64(state.header.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = 0, 0, 0
    row.iteration, row.ps, row.op = state.header.iteration, 0, PUSH
    row.request_bytes, row.response_bytes = OCTETS, OCTETS
    row.lanes, row.served, row.attempts = VALUES, VALUES, slot.attempts
    state.header.rows += 1
    return r


@compiled
def _end_all_reduce(state: Reducer) -> None:
    header = state.header
    header.first_packet = (header.first_packet + header.n_packets) & MAX_U32
    header.due = NEVER
    if header.op == PUSH:
        for k in range(len(state.sums)):
            state.model[k] += np.uint32(state.sums[k])
        for i in range(int64(header.n_keys)):
            state.answered[i] = True


WORKER = register_worker_ops(
    Reducer,
    WorkerOps(start, transmit, octets, peer, wake, deadline, receive),
)
