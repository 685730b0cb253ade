"""A worker's half: an all-reduce, chunk by chunk, in a window that its own results move on.

The result of a packet has the next one sent, a batch behind it, into the slot that is next in the pool: slots
in turn, then the same in the other set. A packet of floats also has the exponent of the chunk a batch behind
its own, so that all know the scale before they send it; a first batch has exponents only."""

from __future__ import annotations

import numpy as np

from foundation.designs.halves import worker_half
from foundation.designs.interface import NEVER, NOTHING, WorkerHalf
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import ALL, EMPTY, PULL, PUSH, Rpc
from hosts.switchml.floats import as_float, as_integer, largest_exponent, scale_of
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
from hosts.worker.lockstep import FLOATS
from hosts.worker.timer import expired, sample
from nativekit.compile import compiled, int64


@compiled
def start(state: Reducer, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation.

    A pull reads the worker's own model, and is over at once. A push adds the deltas of all workers to it: all
    push together. An empty call is an all-reduce of one chunk of zeros. Others are of the first `n_keys`
    values."""
    me = state.me
    me.op, me.iteration, me.n_keys = op, iteration, n_keys
    size = n_keys
    if op == PULL:
        me.calls = 0
        for i in range(n_keys):
            state.values[i] = state.model[state.positions[i]]
        return
    if op == PUSH:
        size = len(state.addend)
        state.addend[:] = 0
        for i in range(n_keys):
            state.addend[state.positions[i]] = np.int32(state.deltas[i])
    elif op == EMPTY:
        size, me.n_keys = VALUES, 0
        state.addend[:VALUES] = 0
    _begin(state, size)


@compiled
def _begin(state: Reducer, size: int) -> None:
    me = state.me
    me.is_float = me.op == FLOATS
    me.chunks = (size + VALUES - 1) // VALUES
    me.batch = min(int64(me.window), int64(me.chunks))
    me.total = me.chunks + (me.batch if me.is_float else 0)
    me.calls = me.pending = me.total
    me.number += 1
    me.progress = me.stalled = me.next_ready = me.ready = 0
    for s in range(WINDOW):
        state.slots[s].busy = state.slots[s].queued = 0
    for packet in range(int64(me.batch)):
        _prepare(state, packet)


@compiled
def _prepare(state: Reducer, packet: int) -> None:
    """A packet is to be sent for the first time, in the slot of the one a batch before."""
    s = packet % int64(state.me.batch)
    slot = state.slots[s]
    slot.busy, slot.packet, slot.attempts = 1, packet, 0
    if not slot.queued:
        _queue(state, s)


@compiled
def _queue(state: Reducer, s: int) -> None:
    me = state.me
    state.ring[(me.next_ready + me.ready) % WINDOW] = s
    me.ready += 1
    state.slots[s].queued = 1


@compiled
def transmit(state: Reducer, now: int) -> int:
    """The slot whose datagram is to be sent at once, or NOTHING."""
    me = state.me
    while me.ready:
        s = int64(state.ring[me.next_ready])
        me.next_ready = (me.next_ready + 1) % WINDOW
        me.ready -= 1
        slot = state.slots[s]
        slot.queued = 0
        if not slot.busy:  # the result has come meanwhile
            continue
        if slot.attempts == 0:
            _encode(state, int64(slot.packet), state.sent[s])
            slot.t0 = slot.sent = now
            slot.attempts = 1
            slot.deadline = now + me.timeout
            me.due = min(int64(me.due), int64(slot.deadline))
            if me.progress == 0:
                me.progress = max(now, 1)
        return s
    return NOTHING


@compiled
def _encode(state: Reducer, packet: int, rpc: Rpc) -> None:
    """Write packet number `packet` of the all-reduce."""
    me = state.me
    workers, exponent, chunk = int64(me.workers), int64(0), packet
    if me.is_float:
        chunk -= int64(me.batch)
        if packet < me.chunks:
            exponent = largest_exponent(state.floats, packet * VALUES, VALUES)
    number = (int64(me.first) + packet) & ALL
    window = int64(me.window)
    at = number % (2 * window)
    write_head(rpc, int64(me.number), number, int64(me.pool) + at % window, at // window, exponent)
    for i in range(VALUES):
        value = int64(0)
        if chunk >= 0:
            k = chunk * VALUES + i
            if me.is_float:
                value = as_integer(float(state.floats[k]), float(state.scales[chunk]), workers)
            else:
                value = int64(state.addend[k])
        write_value(rpc, i, value)


@compiled
def octets(_state: Reducer, _slot: int) -> int:
    """Length of every datagram."""
    return OCTETS


@compiled
def peer(_state: Reducer, _slot: int) -> int:
    """The switch, at the first service address."""
    return 0


@compiled
def wake(state: Reducer, now: int) -> None:
    """Send again what is overdue; give up after `me.patience` without a result."""
    me = state.me
    if now < me.due:
        return
    if me.pending and now - me.progress >= me.patience:
        me.stalled, me.stalled_at, me.ready, me.due = 1, now, 0, NEVER
        return
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.attempts and slot.deadline <= now:
            expired(me, int64(slot.sent), now)
            slot.sent = now
            slot.attempts += 1
            me.retransmissions += 1
            if not slot.queued:
                _queue(state, s)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.attempts and slot.deadline <= now:
            slot.deadline = now + me.timeout
    me.due = deadline(state)


@compiled
def deadline(state: Reducer) -> int:
    """When the first of what is on its way is overdue, or the operation has stalled, or NEVER."""
    me, due = state.me, int64(NEVER)
    if me.stalled:
        return due
    for s in range(WINDOW):
        if state.slots[s].busy and state.slots[s].attempts:
            due = min(due, int64(state.slots[s].deadline))
    if me.pending and me.progress:
        due = min(due, int64(me.progress + me.patience))
    return due


@compiled
def receive(state: Reducer, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Take in a result; its row of the log, or NOTHING."""
    me = state.me
    if length != OCTETS:
        me.malformed += 1
        return NOTHING
    packet = (chunk_of(rpc) - int64(me.first)) & ALL
    if me.pending == 0 or packet >= me.total or not is_result(rpc, length, int64(me.number)):
        me.unexpected += 1
        return NOTHING
    slot = state.slots[packet % int64(me.batch)]
    if not (slot.busy and slot.attempts and slot.packet == packet):
        me.unexpected += 1
        return NOTHING
    if slot.attempts == 1:
        sample(me, read - slot.t0)
    me.incomplete += missing_of(rpc) > 0
    _take(state, rpc, packet)
    row = _log(state, slot, arrival, read)
    slot.busy = 0
    me.progress = read
    me.pending -= 1
    if packet + me.batch < me.total:
        _prepare(state, packet + int64(me.batch))
    if me.pending == 0:
        _end(state)
    return row


@compiled
def _take(state: Reducer, rpc: Rpc, packet: int) -> None:
    """Keep what a result says: of its chunk the values, and of the one a batch behind the exponent."""
    me, chunk = state.me, packet
    if me.is_float:
        chunk -= int64(me.batch)
    for i in range(VALUES if chunk >= 0 else 0):
        total = value_of(rpc, i)
        if me.is_float:
            state.floats[chunk * VALUES + i] = as_float(total, float(state.scales[chunk]))
        else:
            state.sums[chunk * VALUES + i] = total
    if me.is_float and packet < me.chunks:
        state.scales[packet] = scale_of(exponent_of(rpc), int64(me.workers))


@compiled
def _log(state: Reducer, slot: PacketSlot, arrival: int, read: int) -> int:
    """Write the row of a result but for `w_proc`; returns its number. There must be room."""
    r = int64(state.me.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = 0, 0, 0
    row.iteration, row.ps, row.op = state.me.iteration, 0, PUSH
    row.request_bytes, row.response_bytes = OCTETS, OCTETS
    row.lanes, row.served, row.attempts = VALUES, VALUES, slot.attempts
    state.me.rows += 1
    return r


@compiled
def _end(state: Reducer) -> None:
    """All results are there; a push is applied."""
    me = state.me
    me.first = (me.first + me.total) & ALL
    me.due = NEVER
    if me.op == PUSH:
        for k in range(len(state.sums)):
            state.model[k] += np.uint32(state.sums[k])
        for i in range(int64(me.n_keys)):
            state.answered[i] = True


WORKER = worker_half(
    Reducer,
    WorkerHalf(start, transmit, octets, peer, wake, deadline, receive),
)
