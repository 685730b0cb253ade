"""Answers to a worker's requests: values, acknowledged deltas, refused lanes, and updates of the hints.

Hints of hot keys only affect speed: a lane that a PS refuses is sent again, and the hint is corrected.
"""

from __future__ import annotations

from foundation.protocol.header import SLOT_MASK, Header
from foundation.protocol.rpc import EMPTY, PULL, Rpc, decode, ps_of
from hotline_agents.hotset.worker.recovery import apply_push_status, mark_answered
from hotline_agents.hotset.worker.requests import MISSED, queue_refused_key
from hotline_agents.hotset.worker.state import Call, Calls, drop_call, free_slot, hint, set_level
from hotline_agents.interface import NOTHING
from hotline_agents.worker.rpcs import copy_row, is_expected, row_start
from hotline_agents.worker.window import Slot, log_answer, time_round_trip
from nativekit.bits import popcount
from nativekit.compile import compiled, int64


@compiled
def receive(state: Calls, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header, h = state.header, decode(rpc)
    if not is_expected(state, rpc, h, length):
        return NOTHING
    slot = state.slots[h.seq & SLOT_MASK]
    time_round_trip(state, slot, read)
    row = NOTHING
    if not header.uses_registers:
        row = log_answer(state, slot, h, length, arrival, read)
        state.log[row].iteration = header.iteration
    _apply_answer(state, state.calls[slot.call], rpc, h, read)
    end_call(state, slot)
    return row


@compiled
def end_call(state: Calls, slot: Slot) -> None:
    free_slot(state, slot)
    drop_call(state, slot.call)


@compiled
def _apply_answer(state: Calls, call: Call, rpc: Rpc, h: Header, now: int) -> None:
    header = state.header
    if h.op == EMPTY:
        if call.queried_seq:
            apply_push_status(state, call, h, now)
        else:
            header.pending = 0
        return
    # Refused lanes are sent again, but not those of a PS: it asks which keys the switch has.
    done_lanes = h.live if header.uses_registers else h.live & ~h.refused
    for lane in range(h.count):
        if not h.live >> lane & 1:
            continue
        i = int64(call.key_at[lane])
        if h.op == PULL:
            copy_row(state.values, row_start(state, i), rpc.words, lane * h.dim, h.dim)
        elif done_lanes >> lane & 1:
            mark_answered(state, i, bool(h.served >> lane & 1), call.level)
        state.served[i] = bool(h.served >> lane & 1)
    header.pending -= popcount(done_lanes)
    # The switch serves the lanes with hashed keys, unless a hint is wrong.
    if not header.uses_registers and (h.refused or h.served != call.hashed):
        _correct_hints(state, call, h, now)


@compiled
def _correct_hints(state: Calls, call: Call, h: Header, now: int) -> None:
    for lane in range(h.count):
        if not h.live >> lane & 1:
            continue
        i = int64(call.key_at[lane])
        position = int64(state.positions[i])
        is_served = bool(h.served >> lane & 1)
        if not h.refused >> lane & 1:
            if is_served != bool(call.hashed >> lane & 1):
                hint(state, position, is_served)
                set_level(state, position, call.level)
        elif ps_of(state.keys[i], state.header.n_ps) == call.ps:
            hint(state, position, True)
            if call.hashed >> lane & 1:
                # Not at this level, or being moved.
                set_level(state, position, 1 - call.level)
            else:
                set_level(state, position, call.level)
            queue_refused_key(state, i, call.refusals + 1, now)
        else:
            hint(state, position, False)
            queue_refused_key(state, i, MISSED, now)
