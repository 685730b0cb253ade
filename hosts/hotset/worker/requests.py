"""Start operations, encode their RPCs as slots become free, and retransmit RPCs without an answer."""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from foundation.protocol.header import REPLAY
from foundation.protocol.rpc import EMPTY, NO_KEY_U64, PULL, PUSH, Rpc
from hosts.hotset.worker.calls import NOT_REFUSED, new_call, queue_call
from hosts.hotset.worker.hashed import clear_chains, place_in_hash_lane, queue_chains
from hosts.hotset.worker.packing import pack
from hosts.hotset.worker.refusals import next_resend_time, resend_refused_keys
from hosts.hotset.worker.state import Call, Calls
from hosts.worker.rpcs import key_of, write_head
from hosts.worker.window import earliest_deadline, next_resend, retransmit, take_slot
from nativekit.bits import swap32, swap64
from nativekit.compile import compiled, int64


@compiled
def start(state: Calls, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation on the first `n_keys` positions; with EMPTY `n_keys` is the number of a PS."""
    header = state.header
    if op == EMPTY:
        header.op, header.iteration, header.n_calls = EMPTY, iteration, 0
        header.n_keys, header.pending = 0, 1
        queue_call(state, new_call(state, n_keys, NOT_REFUSED))
        return
    header.op, header.iteration, header.n_calls = op, iteration, 0
    header.n_keys = header.pending = n_keys
    header.word_flags = int64(header.word_flags) & ~REPLAY
    if header.is_replay and header.servers_own_parameters:
        header.word_flags |= REPLAY
    header.is_replay = 0
    for i in range(n_keys):
        state.keys[i] = key_of(state, i)
        state.served[i] = False
        if op == PULL:
            state.values[i] = 0
    if not header.uses_registers:
        uses_switch = header.word_flags == 0  # only servers know these flags
        pack(state, n_keys, uses_switch)
        return
    clear_chains(state)
    for i in range(n_keys):
        place_in_hash_lane(state, i, NOT_REFUSED)
    queue_chains(state)


@compiled
def transmit(state: Calls, now: int) -> int:
    header, s = state.header, next_resend(state)
    if s != NOTHING or header.first_unsent == NOTHING or header.n_free == 0:
        return s
    c = int64(header.first_unsent)
    header.first_unsent = state.calls[c].next
    s = take_slot(state, c, now)
    slot = state.slots[s]
    slot.length = _encode(state, state.calls[c], state.sent[s], int64(slot.seq), now)
    return s


@compiled
def _encode(state: Calls, call: Call, rpc: Rpc, seq: int, now: int) -> int:
    header, count, live = state.header, int64(call.count), int64(call.live)
    op, iteration, t0 = int64(header.op), int64(header.iteration), now
    if op == PUSH and header.servers_own_parameters:
        iteration = int64(header.push_number)
    if call.queried_seq:  # the call queries whether an earlier push was applied
        op, count, live, iteration, t0 = EMPTY, 0, 0, int64(call.queried_seq), int64(call.queried_epoch)
    elif header.uses_registers:
        t0 = 0  # so that a PS repeats the same bytes after a restart
    length = write_head(state, rpc, op, int64(call.ps), count, seq, live, iteration, t0)
    for lane in range(count):
        rpc.keys[lane] = swap64(state.keys[call.key_at[lane]]) if live >> lane & 1 else NO_KEY_U64
    for lane in range(count if op == PUSH else 0):
        delta = int64(state.deltas[call.key_at[lane]]) if live >> lane & 1 else 0
        rpc.words[2 * count + lane] = swap32(delta)  # after `count` keys of two words
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
