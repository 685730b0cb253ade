"""Operations become requests: begun, encoded when a slot is free, and sent again when no answer comes.

A slot is used again only after its RPC has been answered, so the receivers need to remember one turn a slot.
All times are ns of one monotonic clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hosts.worker.calls import new_call, queue_call
from hosts.worker.hashed import begin_hashed, place_hashed, queue_hashed
from hosts.worker.packing import pack
from hosts.worker.refusals import next_refused_due, resend_refused
from hosts.worker.state import NEVER, NOTHING, Calls
from hosts.worker.timer import expired
from native.compile import compiled, int64
from native.words import swap32, swap64
from protocol.header import HEADER_BYTES, KEY_BYTES, KEYS, SLOT_MASK, VALUE_BYTES, VALUES, WINDOW
from protocol.rpc import EMPTY, NOBODY, PULL, PUSH, Request, Rpc, encode


@compiled
def start(state: Calls, op: int, iteration: int, n_keys: int) -> None:
    """Begin to pull or push the parameters at the first `n_keys` positions; there must be no operation."""
    me = state.me
    me.op, me.iteration, me.n_keys, me.pending, me.calls = op, iteration, n_keys, n_keys, 0
    for i in range(n_keys):
        at = int64(state.positions[i])
        state.keys[i] = state.space[at] if len(state.space) else np.uint64(at)
        state.served[i] = False
        if op == PULL:
            state.values[i] = 0
    if not me.registers:
        pack(state, n_keys)
        return
    begin_hashed(state)
    for i in range(n_keys):
        place_hashed(state, i, 0)
    queue_hashed(state)


@compiled
def start_empty(state: Calls, ps: int) -> None:
    """Begin an RPC that asks a PS for nothing ([DDL] Fig. 9); there must be no operation."""
    me = state.me
    me.op, me.iteration, me.n_keys, me.pending, me.calls = EMPTY, 0, 0, 1, 0
    queue_call(state, new_call(state, ps, 0))


@compiled
def transmit(state: Calls, now: int) -> int:
    """The slot whose datagram is to be sent at once, or NOTHING."""
    me = state.me
    while me.queued_again:
        s = int64(state.again[me.again])
        me.again = (me.again + 1) % WINDOW
        me.queued_again -= 1
        state.slots[s].queued = 0
        if state.slots[s].busy:  # else the answer has come meanwhile
            return s
    if me.first_unsent == NOTHING or me.free == 0:
        return NOTHING
    c = int64(me.first_unsent)
    me.first_unsent = state.calls[c].next
    me.free -= 1
    seq = int64(state.free[me.free])
    s = seq & SLOT_MASK
    slot = state.slots[s]
    slot.busy, slot.seq, slot.call, slot.attempts = 1, seq, c, 1
    slot.t0 = slot.sent = now
    slot.number = me.issued
    me.issued += 1
    slot.deadline = now + me.timeout
    me.due = min(int64(me.due), int64(slot.deadline))
    slot.length = _encode(state, state.calls[c], state.sent[s], seq, now)
    return s


@compiled
def _encode(state: Calls, call: Any, rpc: Rpc, seq: int, now: int) -> int:
    """Write a request; returns its length."""
    me, count, live = state.me, int64(call.count), int64(call.live)
    op, iteration, t0 = int64(me.op), int64(me.iteration), now
    if call.asked:
        op, count, live, iteration, t0 = EMPTY, 0, 0, int64(call.asked), int64(call.asked_epoch)
    elif me.registers:
        t0 = 0  # what a PS says again after a restart is answered as what it said before
    flags = (KEYS | VALUES if op == PUSH else KEYS) if op != EMPTY else 0
    job, worker, epoch, ps = int64(me.job), int64(me.worker), int64(me.epoch), int64(call.ps)
    said = Request(
        op=op, flags=flags, job=job, worker=worker, epoch=epoch, ps=ps, count=count, seq=seq,
        iteration=iteration, live=live, t0=t0,
    )  # fmt: skip
    encode(rpc, said)
    for lane in range(count):
        rpc.keys[lane] = swap64(state.keys[call.key_at[lane]]) if live >> lane & 1 else NOBODY
    if op != PUSH:
        return HEADER_BYTES + count * KEY_BYTES
    for lane in range(count):
        delta = int64(state.deltas[call.key_at[lane]]) if live >> lane & 1 else 0
        rpc.words[2 * count + lane] = swap32(delta)
    return HEADER_BYTES + count * (KEY_BYTES + VALUE_BYTES)


@compiled
def wake(state: Calls, now: int) -> None:
    """Send again what is overdue, and refused keys that have waited long enough."""
    me = state.me
    if now < me.due:
        return
    _retransmit(state, now)
    resend_refused(state, now)
    me.due = deadline(state)


@compiled
def _retransmit(state: Calls, now: int) -> None:
    """Queue what is overdue, as it was, in the order in which it was first sent."""
    me, waiting = state.me, int64(state.me.queued_again)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            expired(me, int64(slot.sent), now)
            slot.sent = now
            slot.attempts += 1
            me.retransmissions += 1
            if not slot.queued:
                _queue_again(state, s, waiting)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + me.timeout


@compiled
def _queue_again(state: Calls, s: int, waiting: int) -> None:
    """Insert a slot by its number, behind the `waiting` ones."""
    me = state.me
    k = int64(me.queued_again)
    while k > waiting:
        before = int64(state.again[(me.again + k - 1) % WINDOW])
        if state.slots[before].number < state.slots[s].number:
            break
        state.again[(me.again + k) % WINDOW] = before
        k -= 1
    state.again[(me.again + k) % WINDOW] = s
    me.queued_again += 1
    state.slots[s].queued = 1


@compiled
def deadline(state: Calls) -> int:
    """When `wake` is due next, or NEVER."""
    due = int64(NEVER)
    for s in range(WINDOW):
        if state.slots[s].busy:
            due = min(due, int64(state.slots[s].deadline))
    return next_refused_due(state, due)
