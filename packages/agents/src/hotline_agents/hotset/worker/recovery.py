"""Recovery from a lost switch: a worker logs the deltas that the switch acknowledges, and pushes them again.

A switch that restarts has neither values nor turns (`seq` div WINDOW of each slot). Its callers continue
with another epoch, so that no late duplicate of an earlier RPC is accepted. An RPC without an answer may have
been lost with the switch, or have reached its PS: the worker asks the PS which lanes of a push it has added
(`hotline_agents.hotset.ps.rpc`), and pushes the other lanes again.

All acknowledged deltas are pushed again, also those that a PS has collected from the switch: the PS subtracts
all collected values (`hotline_agents.hotset.ps.store.HotsetStore.restore`). So the log needs only one sum
for each key, and a collection need not be reported to the workers.

The replay log is a file, and a worker may be killed between any two instructions: what these functions write
to it are atomic stores, each of which leaves a log that says what is to be pushed again, of each row all
values or none. An answered lane is logged before it is marked as answered: marked first, its update would be
lost with the switch. A push that outlives the switch is marked as such in the file of requests in flight,
from which its requests to that switch disappear.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import WINDOW, Header
from foundation.protocol.rpc import PUSH, ps_of
from hosts.in_flight import LOST_SWITCH
from hosts.keys import first_value_at, range_at
from hosts.replay_words import (
    UNDO_WORDS,
    acknowledge_row,
    make_unreplayed,
    remove_mark,
    set_unreplayed,
    unreplayed_at,
)
from hotline_agents.hotset.worker.requests import queue_refused_key
from hotline_agents.hotset.worker.state import Call, Calls, queue_call, refill_window
from hotline_agents.worker.rpcs import dim_of, row_start
from hotline_agents.worker.window import MAX_TURN, RESERVED_NUMBERS
from nativekit.bits import popcount
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release


@compiled
def mark_answered(state: Calls, i: int, is_served: bool, level: int) -> None:
    """Mark key `i` of a push as applied, by a home of a level if `is_served`; then the log has its delta."""
    is_logged = is_served and state.header.has_replay_log
    if is_logged:
        first = _part_of_level(state, level) + first_value_at(state.ranges, int64(state.positions[i]))
        acknowledge_row(state.replay_log, first, state.deltas, row_start(state, i), dim_of(state, i))
    store_item_release(state.answered, i, True)
    if is_logged:
        remove_mark(state.replay_log)


@compiled
def renew(state: Calls, home: int, epoch: int) -> None:
    """Continue with another epoch at a home that has lost its state."""
    header, window = state.header, state.windows[home]
    if header.op == PUSH and header.pending:
        store_item_release(state.in_flight, LOST_SWITCH, 1)
    previous_epoch, window.epoch = int64(window.epoch), epoch
    if home == 0:
        header.epoch = epoch
    if header.has_replay_log:
        _make_unreplayed(state, home)
        header.unreplayed = 1  # 1 + position 0
    _forget_resends(state, home)
    header.n_free -= window.n_free
    for s in range(window.first_slot, window.first_slot + window.n_slots):
        slot = state.slots[s]
        if slot.busy:
            call = state.calls[slot.call]
            if header.op == PUSH and not call.queried_seq:
                call.queried_seq, call.queried_epoch = slot.seq, previous_epoch
            queue_call(state, slot.call)
            slot.busy = 0
        slot.queued = 0
    refill_window(state.free, window)
    header.n_free += window.n_free
    if len(state.windows) == 1:
        header.issue_limit = header.n_issued + header.window * MAX_TURN - RESERVED_NUMBERS


@compiled
def _make_unreplayed(state: Calls, home: int) -> None:
    """Have the updates replayed that a home had acknowledged."""
    if len(state.windows) == 1:
        make_unreplayed(state.replay_log, 0, len(state.replay_log) - UNDO_WORDS)
        return
    level = int64(state.windows[home].level)
    for position in range(state.header.n_rows):
        key = state.space[position] if len(state.space) else np.uint64(position)
        if state.homes[level * state.header.n_ps + ps_of(key, state.header.n_ps)] == home:
            first = _part_of_level(state, level) + first_value_at(state.ranges, position)
            end = first + state.ranges[range_at(state.ranges, position)].dim
            make_unreplayed(state.replay_log, first, end)


@compiled
def _levels(state: Calls) -> int:
    return 2 if len(state.upper) else 1


@compiled
def _part_of_level(state: Calls, level: int) -> int:
    """Return where the words begin in the replay log of what homes of a level have acknowledged."""
    return level * (len(state.replay_log) - UNDO_WORDS) // 2


@compiled
def _forget_resends(state: Calls, home: int) -> None:
    """Remove the slots of a home from the ring of retransmissions."""
    header, window, n_left = state.header, state.windows[home], 0
    for k in range(header.queued_resends):
        s = int64(state.resends[(header.first_resend + k) % WINDOW])
        if not window.first_slot <= s < window.first_slot + window.n_slots:
            state.resends[(header.first_resend + n_left) % WINDOW] = s
            n_left += 1
    header.queued_resends = n_left


@compiled
def apply_push_status(state: Calls, call: Call, h: Header, now: int) -> None:
    added_lanes = call.live & ~h.refused
    for lane in range(call.count):
        if call.live >> lane & 1:
            i = int64(call.key_at[lane])
            if added_lanes >> lane & 1:
                mark_answered(state, i, False, 0)
                state.served[i] = False
            else:
                queue_refused_key(state, i, call.refusals + 1, now)
    state.header.pending -= popcount(added_lanes)


@compiled
def next_unreplayed(state: Calls) -> int:
    """Set positions and deltas to those of the next unreplayed updates; return their number."""
    header, n, n_values, size = state.header, 0, 0, state.header.n_rows
    position = header.unreplayed - 1  # `unreplayed` is 1 + the position, or 0
    while position < size and n < len(state.keys):
        rows = state.ranges[range_at(state.ranges, position)]
        first, dim, bits = first_value_at(state.ranges, position), rows.dim, 0
        for v in range(dim):
            total = int64(0)
            for level in range(_levels(state)):
                total += unreplayed_at(state.replay_log, _part_of_level(state, level) + first + v)
            state.deltas[n_values + v] = total & MAX_U32
            bits |= total & MAX_U32
        if bits:
            state.positions[n] = position
            n += 1
            n_values += dim
        position += 1
    header.unreplayed = position + 1 if position < size else 0
    return n


@compiled
def take_unreplayed(state: Calls, n: int) -> None:
    state.header.is_replay = n > 0
    for i in range(n):
        position = int64(state.positions[i])
        first = first_value_at(state.ranges, position)
        for v in range(state.ranges[range_at(state.ranges, position)].dim):
            for level in range(_levels(state)):
                set_unreplayed(state.replay_log, _part_of_level(state, level) + first + v, 0)
