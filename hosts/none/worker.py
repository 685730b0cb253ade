"""A worker's half: an operation's keys go to their servers, in as few RPCs as hold them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.designs.halves import worker_half
from foundation.designs.interface import NOTHING, WorkerHalf
from foundation.protocol.header import (
    HEADER_BYTES,
    KEY_BYTES,
    KEYS,
    LANES,
    SLOT_MASK,
    VALUE_BYTES,
    VALUES,
    WINDOW,
)
from foundation.protocol.rpc import EMPTY, PULL, PUSH, Request, Rpc, decode, encode, ps_of, rpcs, well_formed
from hosts.worker.row import ROW
from hosts.worker.window import ME as WINDOW_ME
from hosts.worker.window import (
    SLOT,
    free_slot,
    is_answered,
    log_answer,
    next_again,
    next_overdue,
    open_window,
    retransmit,
    take_slot,
    time_round_trip,
)
from nativekit.bits import swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import record, records

ME = record(
    *WINDOW_ME,
    "n_ps", "op", "iteration", "n_keys",
    "pending",  # keys of the operation that are not answered; an empty RPC counts as one
    "calls", "unsent",  # of the operation: how many, and the first that has not been sent
)  # fmt: skip
CALL = record("ps", "first", "count")
"""One RPC: the keys `order[first : first + count]` of the operation, in lanes from 0 on."""
OF_PS = record("first", "left")
"""Keys of an operation that are in no call yet: where they begin in `order`, and how many."""


class Requests(NamedTuple):
    """A worker's calls for one job; B is the largest number of keys of an operation."""

    me: Any
    """A record of numbers."""
    slots: Any
    """SLOT[WINDOW]"""
    sent: Any
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    free: Any
    """int64[WINDOW]: next sequence numbers of the me.free slots that are free, the next to be used last."""
    again: Any
    """int64[WINDOW]: slots to be sent again, a ring of me.queued_again from me.again on."""
    calls: Any
    """CALL[B / LANES + n_ps]"""
    order: Any
    """int32[B]: keys of the operation, those of a server side by side."""
    of_ps: Any
    """OF_PS[n_ps]"""
    keys: Any
    """uint64[B]"""
    positions: Any
    """int64[B]: of the keys in the key space."""
    deltas: Any
    """uint32[B]: what a push adds."""
    values: Any
    """uint32[B]: what a pull brings."""
    answered: Any
    """bool[>= size]: deltas that are known to be applied; the caller's."""
    space: Any
    """uint64[parameters]: key at each position; empty where they are the same."""
    log: Any
    """ROW[n]: answered RPCs, the first me.rows."""


def make_requests(
    job: int,
    worker: int,
    epoch: int,
    *,
    n_ps: int,
    sparse: NDArray[np.uint64] | None,
    largest: int,
    window: int = WINDOW,
    rows: int = 1024,
) -> Requests:
    """Calls of an idle worker; `largest` is the most keys that an operation may have."""
    me = records(1, ME)[0]
    free = open_window(me, job, worker, epoch, window)
    me.n_ps = n_ps
    space = (np.zeros(0, np.uint64) if sparse is None else np.asarray(sparse, np.uint64)).view(np.ndarray)
    space.setflags(write=False)
    return Requests(
        me=me,
        slots=records(WINDOW, SLOT),
        sent=rpcs(WINDOW),
        free=free,
        again=np.zeros(WINDOW, np.int64),
        calls=records(largest // LANES + n_ps, CALL),
        order=np.zeros(largest, np.int32),
        of_ps=records(n_ps, OF_PS),
        keys=np.zeros(largest, np.uint64),
        positions=np.zeros(largest, np.int64),
        deltas=np.zeros(largest, np.uint32),
        values=np.zeros(largest, np.uint32),
        answered=np.zeros(largest, np.bool_),
        space=space,
        log=records(rows, ROW),
    )


@compiled
def start(state: Requests, op: int, iteration: int, n_keys: int) -> None:
    """Begin to pull or push the parameters at the first `n_keys` positions; with EMPTY `n_keys` is the PS."""
    me = state.me
    me.op, me.iteration, me.calls, me.unsent = op, iteration, 0, 0
    if op == EMPTY:
        me.n_keys, me.pending = 0, 1
        _add_call(state, n_keys, 0, 0)
        return
    me.n_keys = me.pending = n_keys
    _sort_by_ps(state, n_keys)
    more = True
    while more:  # in turn for each PS
        more = False
        for ps in range(int64(me.n_ps)):
            mine = state.of_ps[ps]
            count = min(int64(mine.left), LANES)
            if count:
                _add_call(state, ps, int64(mine.first), count)
                mine.first += count
                mine.left -= count
                more = True


@compiled
def _sort_by_ps(state: Requests, n_keys: int) -> None:
    """Fill `keys`, `order` and `of_ps`: a counting sort."""
    n_ps = int64(state.me.n_ps)
    for ps in range(n_ps):
        state.of_ps[ps].left = 0
    for i in range(n_keys):
        at = int64(state.positions[i])
        key = state.space[at] if len(state.space) else np.uint64(at)
        state.keys[i] = key
        state.of_ps[ps_of(key, n_ps)].left += 1
    before = int64(0)
    for ps in range(n_ps):
        mine = state.of_ps[ps]
        mine.first = before
        before += mine.left
        mine.left = 0
    for i in range(n_keys):
        mine = state.of_ps[ps_of(state.keys[i], n_ps)]
        state.order[mine.first + mine.left] = i
        mine.left += 1


@compiled
def _add_call(state: Requests, ps: int, first: int, count: int) -> None:
    call = state.calls[state.me.calls]
    call.ps, call.first, call.count = ps, first, count
    state.me.calls += 1


@compiled
def transmit(state: Requests, now: int) -> int:
    """The slot whose datagram is to be sent at once, or NOTHING."""
    me, s = state.me, next_again(state)
    if s != NOTHING or me.unsent == me.calls or me.free == 0:
        return s
    c = int64(me.unsent)
    me.unsent += 1
    s = take_slot(state, c, now)
    slot = state.slots[s]
    slot.length = _encode(state, state.calls[c], state.sent[s], int64(slot.seq), now)
    return s


@compiled
def _encode(state: Requests, call: Any, rpc: Rpc, seq: int, now: int) -> int:
    """Write a request; returns its length."""
    me, count, op = state.me, int64(call.count), int64(state.me.op)
    flags = (KEYS | VALUES if op == PUSH else KEYS) if op != EMPTY else 0
    job, worker, epoch, ps = int64(me.job), int64(me.worker), int64(me.epoch), int64(call.ps)
    said = Request(
        op=op, flags=flags, job=job, worker=worker, epoch=epoch, ps=ps, count=count, seq=seq,
        iteration=int64(me.iteration), live=(1 << count) - 1, t0=now,
    )  # fmt: skip
    encode(rpc, said)
    for lane in range(count):
        rpc.keys[lane] = swap64(state.keys[state.order[call.first + lane]])
    if op != PUSH:
        return HEADER_BYTES + count * KEY_BYTES
    for lane in range(count):
        rpc.words[2 * count + lane] = swap32(int64(state.deltas[state.order[call.first + lane]]))
    return HEADER_BYTES + count * (KEY_BYTES + VALUE_BYTES)


@compiled
def octets(state: Requests, s: int) -> int:
    """Length of a slot's datagram."""
    return int64(state.slots[s].length)


@compiled
def peer(state: Requests, s: int) -> int:
    """The PS that it goes to."""
    return int64(state.calls[state.slots[s].call].ps)


@compiled
def wake(state: Requests, now: int) -> None:
    """Send again what is overdue."""
    if now >= state.me.due:
        retransmit(state, now)
        state.me.due = next_overdue(state)


@compiled
def receive(state: Requests, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Take in an answer; its row of the log, or NOTHING."""
    me = state.me
    if length < HEADER_BYTES:
        me.malformed += 1
        return NOTHING
    h = decode(rpc)
    if not well_formed(h, length):
        me.malformed += 1
        return NOTHING
    if h.refused or not is_answered(state, rpc, h):  # no key is anywhere but at its server
        me.unexpected += 1
        return NOTHING
    slot = state.slots[h.seq & SLOT_MASK]
    time_round_trip(state, slot, read)
    row = log_answer(state, slot, h, length, arrival, read)
    call = state.calls[slot.call]
    for lane in range(int64(call.count)):
        i = int64(state.order[call.first + lane])
        if h.op == PULL:
            state.values[i] = swap32(rpc.words[lane])
        else:
            state.answered[i] = True
    me.pending -= 1 if h.op == EMPTY else int64(call.count)
    free_slot(state, slot)
    return row


@compiled
def owes_nothing(_state: Requests) -> int:
    """No key: the switch holds nothing that could be lost."""
    return 0


@compiled
def takes_nothing(_state: Requests, _n: int) -> None:
    """There is nothing to be taken."""


WORKER = worker_half(
    Requests,
    WorkerHalf(start, transmit, octets, peer, wake, next_overdue, receive, owes_nothing, takes_nothing),
)
