"""Answers: which request each answers, what it brings, and what it teaches about the hot set.

The hints only make it fast: a lane that a PS refuses is sent again, and what that tells is remembered.
"""

from __future__ import annotations

from typing import Any

from hosts.worker.calls import drop_call
from hosts.worker.recovery import keep, take_back
from hosts.worker.refusals import miss, refuse
from hosts.worker.state import NOTHING, Calls, hint
from hosts.worker.timer import sample
from native.compile import compiled, int64
from native.words import ones, swap32
from protocol.header import HEADER_BYTES, RESPONSE, SLOT_MASK, WINDOW, Header
from protocol.rpc import EMPTY, PULL, Rpc, decode, ps_of, well_formed


@compiled
def receive(state: Calls, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Take in a datagram that the kernel received at `arrival` and that was read at `read`.

    Returns its row of the log, which must have room, or NOTHING; the row's `w_proc` is left to be written.
    """
    me = state.me
    if length < HEADER_BYTES:
        me.malformed += 1
        return NOTHING
    h = decode(rpc)
    if not well_formed(h, length):
        me.malformed += 1
        return NOTHING
    s = h.seq & SLOT_MASK
    slot = state.slots[s]
    if not (slot.busy and slot.seq == h.seq and h.flags & RESPONSE and _answers(rpc, state.sent[s])):
        me.unexpected += 1
        return NOTHING
    if slot.attempts == 1:
        sample(me, read - slot.t0)
    row = NOTHING if me.registers else _log(state, slot, h, length, arrival, read)
    _take_in(state, state.calls[slot.call], rpc, h, read)
    end_call(state, slot)
    return row


@compiled
def end_call(state: Calls, slot: Any) -> None:
    """Free a slot for its next turn, and its call's record for another."""
    me = state.me
    slot.busy = 0
    state.free[me.free] = slot.seq + WINDOW
    me.free += 1
    drop_call(state, int64(slot.call))


@compiled
def _answers(rpc: Rpc, sent: Rpc) -> bool:
    """Whether `rpc`, an answer, echoes what it must of the request `sent`."""
    return bool(
        rpc.op == sent.op and rpc.job == sent.job and rpc.worker == sent.worker and rpc.epoch == sent.epoch
        and rpc.ps == sent.ps and rpc.count == sent.count and rpc.seq == sent.seq and rpc.live == sent.live
        and rpc.iteration == sent.iteration and rpc.t0 == sent.t0
    )  # fmt: skip


@compiled
def _take_in(state: Calls, call: Any, rpc: Rpc, h: Header, now: int) -> None:
    """Keep values, mark what is done, learn; lanes that were refused are to be sent again."""
    me = state.me
    if h.op == EMPTY:
        if call.asked:
            take_back(state, call, h, now)
        else:
            me.pending = 0
        return
    done = h.live if me.registers else h.live & ~h.refused
    for lane in range(h.count):
        if not h.live >> lane & 1:
            continue
        i = int64(call.key_at[lane])
        if h.op == PULL:
            state.values[i] = swap32(rpc.words[lane])
        elif done >> lane & 1:
            state.answered[i] = True
            if me.keeps and h.served >> lane & 1:
                keep(state, i)
        state.served[i] = bool(h.served >> lane & 1)
    me.pending -= ones(done)
    if not me.registers and (h.refused or h.served != call.hashed):
        _learn(state, call, h, now)


@compiled
def _learn(state: Calls, call: Any, h: Header, now: int) -> None:
    """Update the hints by an answer that they did not foresee; queue the refused lanes."""
    for lane in range(h.count):
        if not h.live >> lane & 1:
            continue
        i = int64(call.key_at[lane])
        at = int64(state.positions[i])
        served = bool(h.served >> lane & 1)
        if not h.refused >> lane & 1:
            if served != bool(int64(call.hashed) >> lane & 1):
                hint(state, at, served)
        elif ps_of(state.keys[i], int64(state.me.n_ps)) == call.ps:
            hint(state, at, True)
            refuse(state, i, int64(call.refusals), now)
        else:
            hint(state, at, False)
            miss(state, i, now)


@compiled
def _log(state: Calls, slot: Any, h: Header, length: int, arrival: int, read: int) -> int:
    me = state.me
    r = int64(me.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = h.ps_proc, h.ps_queue, h.residence
    row.iteration, row.ps, row.op = h.iteration, h.ps, h.op
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = ones(h.live), ones(h.served), slot.attempts
    me.rows += 1
    return r
