"""Start operations, encode their RPCs as slots become free, and send RPCs and refused keys again.

A refused key of the PS's own share is in the switch, or being moved there. It is sent in its hash lane, after
a delay that doubles with each refusal, and to the other home of the PS, if there is one and it came in its
hash lane before. A key of another share was in a free lane, and the switch did not have it: the key is sent
to its own PS at once.
"""

from __future__ import annotations

from foundation.protocol.header import REPLAY, WINDOW
from foundation.protocol.rpc import EMPTY, NO_KEY_U64, PULL, PUSH, Rpc
from hosts.in_flight import LOST_SWITCH
from hotline_agents.hotset.worker.packing import (
    bucket_cold_key,
    clear_buckets,
    clear_chains,
    pack,
    pack_buckets,
    place_in_hash_lane,
    queue_chains,
)
from hotline_agents.hotset.worker.state import (
    NOT_REFUSED,
    Call,
    Calls,
    home_to_send,
    new_call,
    pack_dim,
    queue_call,
    take_slot,
)
from hotline_agents.interface import NOTHING
from hotline_agents.worker.rpcs import copy_row, dim_of, find_rows, key_of, row_start, write_head
from hotline_agents.worker.window import (
    earliest_deadline,
    mark_in_flight,
    next_resend,
    retransmit,
)
from nativekit.bits import swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release

FIRST_BACKOFF_NS = 250_000
MAX_DOUBLINGS = 7
MISSED = 0  # in place of a number of refusals: another PS refused the key, as the switch did not have it


@compiled
def start(state: Calls, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation on the first `n_keys` positions; with EMPTY `n_keys` is the number of a PS."""
    header = state.header
    if op == EMPTY:
        header.op, header.iteration, header.n_calls = EMPTY, iteration, 0
        header.n_keys, header.pending = 0, 1
        pack_dim(state, 1)
        queue_call(state, new_call(state, n_keys, 0, NOT_REFUSED))
        return
    if state.in_flight[LOST_SWITCH]:
        forget_lost_requests(state)
    header.op, header.iteration, header.n_calls = op, iteration, 0
    header.n_keys = header.pending = n_keys
    header.word_flags = header.word_flags & ~REPLAY
    if header.is_replay and header.servers_own_parameters:
        header.word_flags |= REPLAY
    header.is_replay = 0
    find_rows(state, n_keys)
    for i in range(n_keys):
        state.keys[i] = key_of(state, i)
        state.served[i] = False
    for v in range(row_start(state, n_keys) if op == PULL else 0):
        state.values[v] = 0
    dim = int64(1)
    while dim <= header.dims:
        if header.dims & dim:
            pack_dim(state, dim)
            _queue_calls(state, n_keys)
        dim *= 2


@compiled
def forget_lost_requests(state: Calls) -> None:
    """Remove the requests to a lost switch, whose push has ended, from those in flight."""
    for s in range(WINDOW):
        store_item_release(state.in_flight, s, 0)
    store_item_release(state.in_flight, LOST_SWITCH, 0)


@compiled
def _queue_calls(state: Calls, n_keys: int) -> None:
    """Queue the calls of the keys whose rows have the dim that is packed now."""
    header = state.header
    if not header.uses_registers:
        uses_switch = header.word_flags == 0  # only servers know these flags
        pack(state, n_keys, uses_switch)
        return
    clear_chains(state)
    for i in range(n_keys):
        if header.dim or dim_of(state, i) == header.packed_dim:
            place_in_hash_lane(state, i, NOT_REFUSED)
    queue_chains(state)


@compiled
def transmit(state: Calls, now: int) -> int:
    s = next_resend(state)
    if s != NOTHING:
        return s
    home = home_to_send(state)
    if home == NOTHING:
        return NOTHING
    s = take_slot(state, home, now)
    slot = state.slots[s]
    slot.length = _encode(state, state.calls[slot.call], state.sent[s], home, slot.seq, now)
    mark_in_flight(state, s)
    return s


@compiled
def _encode(state: Calls, call: Call, rpc: Rpc, home: int, seq: int, now: int) -> int:
    header, epoch = state.header, int64(state.windows[home].epoch)
    count, live, dim = call.count, call.live, call.dim
    op, iteration, t0 = header.op, header.iteration, now
    if op == PUSH and header.servers_own_parameters:
        iteration = header.push_number
    if call.queried_seq:  # the call queries whether an earlier push was applied
        op, count, live, iteration, t0 = EMPTY, 0, 0, call.queried_seq, call.queried_epoch
    elif header.uses_registers:
        t0 = 0  # so that a PS repeats the same bytes after a restart
    length = write_head(state, rpc, op, call, count, epoch, seq, live, iteration, t0)
    for lane in range(count):
        rpc.keys[lane] = swap64(state.keys[call.key_at[lane]]) if live >> lane & 1 else NO_KEY_U64
    is_scalar = header.dim == 1  # without loops over a row
    for lane in range(count if op == PUSH and is_scalar else 0):
        delta = int64(state.deltas[call.key_at[lane]]) if live >> lane & 1 else 0
        rpc.words[2 * count + lane] = swap32(delta)  # after `count` keys of two words
    for lane in range(count if op == PUSH and not is_scalar else 0):
        target = 2 * count + lane * dim  # after `count` keys of two words
        if live >> lane & 1:
            copy_row(rpc.words, target, state.deltas, row_start(state, int64(call.key_at[lane])), dim)
        else:
            for v in range(dim):
                rpc.words[target + v] = 0
    return length


@compiled
def wake(state: Calls, now: int) -> None:
    header = state.header
    if now < header.due:
        return
    retransmit(state, now)
    resend_refused_keys(state, now)
    header.due = deadline(state)


@compiled
def deadline(state: Calls) -> int:
    return next_resend_time(state, earliest_deadline(state))


@compiled
def queue_refused_key(state: Calls, i: int, refusals: int, now: int) -> None:
    """Queue key `i`, which its own PS has refused `refusals` times; MISSED if another PS refused it."""
    group = state.groups[_group_index(state, i, refusals, now)]
    state.next_key[i] = NOTHING
    if group.first == NOTHING:
        group.first = i
    else:
        state.next_key[group.last] = i
    group.last = i


@compiled
def _group_index(state: Calls, i: int, refusals: int, now: int) -> int:
    header = state.header
    dim = dim_of(state, i)
    for g in range(header.n_groups):
        if state.groups[g].refusals == refusals and state.groups[g].dim == dim:
            return g
    g = header.n_groups
    group = state.groups[g]
    group.refusals, group.dim, group.first, group.last = refusals, dim, NOTHING, NOTHING
    group.due = now + (FIRST_BACKOFF_NS << min(refusals - 1, MAX_DOUBLINGS) if refusals else 0)
    header.due = min(header.due, group.due)
    header.n_groups += 1
    return g


@compiled
def resend_refused_keys(state: Calls, now: int) -> None:
    header, n_waiting = state.header, 0
    for g in range(header.n_groups):
        group = state.groups[g]
        if group.due > now:
            target = state.groups[n_waiting]
            target.refusals, target.dim, target.due, target.first, target.last = (
                group.refusals, group.dim, group.due, group.first, group.last
            )  # fmt: skip
            n_waiting += 1
            continue
        pack_dim(state, group.dim)
        if group.refusals != MISSED:
            _resend_in_hash_lanes(state, group.first, group.refusals)
        else:
            _resend_missed_keys(state, group.first)
    header.n_groups = n_waiting


@compiled
def _resend_in_hash_lanes(state: Calls, first: int, refusals: int) -> None:
    clear_chains(state)
    i = first
    while i != NOTHING:
        place_in_hash_lane(state, i, refusals)
        i = int64(state.next_key[i])
    queue_chains(state)


@compiled
def _resend_missed_keys(state: Calls, first: int) -> None:
    clear_buckets(state)
    i = first
    while i != NOTHING:
        next_index = int64(state.next_key[i])
        bucket_cold_key(state, i)
        i = next_index
    pack_buckets(state, 0)


@compiled
def next_resend_time(state: Calls, due: int) -> int:
    for g in range(state.header.n_groups):
        due = min(due, state.groups[g].due)
    return due
