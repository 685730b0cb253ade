"""Operations become requests: begun, encoded when a slot is free, and sent again when no answer comes.

All times are ns of one monotonic clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foundation.designs.interface import NOTHING
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, KEYS, VALUE_BYTES, VALUES
from foundation.protocol.rpc import EMPTY, NOBODY, PULL, PUSH, Request, Rpc, encode
from hosts.hotset.worker.calls import new_call, queue_call
from hosts.hotset.worker.hashed import begin_hashed, place_hashed, queue_hashed
from hosts.hotset.worker.packing import pack
from hosts.hotset.worker.refusals import next_refused_due, resend_refused
from hosts.hotset.worker.state import Calls
from hosts.worker.window import next_again, next_overdue, retransmit, take_slot
from nativekit.bits import swap32, swap64
from nativekit.compile import compiled, int64


@compiled
def start(state: Calls, op: int, iteration: int, n_keys: int) -> None:
    """Begin to pull or push the parameters at the first `n_keys` positions; there must be no operation.

    With EMPTY `n_keys` is the PS that is asked for nothing ([DDL] Fig. 9).
    """
    me = state.me
    if op == EMPTY:
        me.op, me.iteration, me.n_keys, me.pending, me.calls = EMPTY, iteration, 0, 1, 0
        queue_call(state, new_call(state, n_keys, 0))
        return
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
def transmit(state: Calls, now: int) -> int:
    """The slot whose datagram is to be sent at once, or NOTHING."""
    me, s = state.me, next_again(state)
    if s != NOTHING or me.first_unsent == NOTHING or me.free == 0:
        return s
    c = int64(me.first_unsent)
    me.first_unsent = state.calls[c].next
    s = take_slot(state, c, now)
    slot = state.slots[s]
    slot.length = _encode(state, state.calls[c], state.sent[s], int64(slot.seq), now)
    return s


@compiled
def octets(state: Calls, s: int) -> int:
    """Length of a slot's datagram."""
    return int64(state.slots[s].length)


@compiled
def peer(state: Calls, s: int) -> int:
    """The PS that it goes to."""
    return int64(state.calls[state.slots[s].call].ps)


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
    retransmit(state, now)
    resend_refused(state, now)
    me.due = deadline(state)


@compiled
def deadline(state: Calls) -> int:
    """When `wake` is due next, or NEVER."""
    return next_refused_due(state, next_overdue(state))
