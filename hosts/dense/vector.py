"""What a worker of these designs does with its vector before and after it is added up, and when it gives up.

A state has `me` with the fields of `ME`, what `hosts.worker.window` and `BaseClient` ask for, and

- `vector`, uint32[N]: what this worker adds, in whose place the sums of all come;
- `model`, uint32[N]: the parameters, which all workers have alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from foundation.designs.interface import NEVER
from foundation.protocol.rpc import ALL, EMPTY, PULL, PUSH, Rpc
from hosts.dense.wire import as_packet, is_sound
from hosts.worker.lockstep import FLOATS
from hosts.worker.row import ROW
from hosts.worker.window import ME as WINDOW_ME
from hosts.worker.window import next_overdue, retransmit
from nativekit.bits import swap16, swap32
from nativekit.compile import compiled, int64

ME = (
    *WINDOW_ME,
    "n_ps", "workers", "op", "iteration", "n_keys",
    "n", "full", "is_float", "number",  # the vector's length, a chunk's, its form, and which all-reduce it is
    "calls", "pending", "unsent",  # packets of the operation; how many are to come; the first not sent
    "progress", "patience", "stalled", "stalled_at",
)  # fmt: skip
_MOST_LANES = np.iinfo(ROW["lanes"]).max


@compiled
def begin(state: Any, op: int, iteration: int, n_keys: int) -> int:
    """Begin an operation: how many values are to be added up, 0 for a pull, which is over at once.

    A pull reads the worker's own model. A push adds the deltas of all workers to it: all push together. An
    empty call adds up a 0. Others add up the first `n_keys` values."""
    me = state.me
    me.op, me.iteration, me.n_keys, me.n = op, iteration, n_keys, n_keys
    me.calls = me.unsent = 0
    if op == PULL:
        for i in range(n_keys):
            state.values[i] = state.model[state.positions[i]]
        return 0
    if op == PUSH:
        me.n = len(state.vector)
        state.vector[:] = 0
        for i in range(n_keys):
            state.vector[state.positions[i]] = state.deltas[i]
    elif op == EMPTY:
        me.n, me.n_keys = 1, 0
        state.vector[0] = 0
    me.is_float = op == FLOATS
    me.number += 1
    me.progress = me.stalled = 0
    return int64(me.n)


@compiled
def end(state: Any) -> None:
    """All sums are there; a push is applied."""
    me = state.me
    if me.op == PUSH:
        for k in range(len(state.vector)):
            state.model[k] += state.vector[k]
        for i in range(int64(me.n_keys)):
            state.answered[i] = True


@compiled
def is_of_job(state: Any, rpc: Rpc, length: int) -> bool:
    """Whether a datagram is a packet of this worker's job; counts what is not."""
    me = state.me
    if not is_sound(rpc, length):
        me.malformed += 1
        return False
    if swap16(as_packet(rpc).job) != me.job:
        me.unexpected += 1
        return False
    return True


@compiled
def is_of_vector(state: Any, rpc: Rpc) -> bool:
    """Whether it is of the vectors that are being added up, and cut into chunks as this worker does."""
    me, packet = state.me, as_packet(rpc)
    return bool(
        swap32(packet.number) == me.number & ALL
        and packet.workers == me.workers
        and swap16(packet.full) == me.full
        and packet.form == me.is_float
    )


@compiled
def slot_of(state: Any, chunk: int) -> int:
    """The slot whose packet, which is on its way, is of that chunk; -1 where there is none."""
    for s in range(len(state.slots)):
        if state.slots[s].busy and state.slots[s].call == chunk:
            return s
    return -1


@compiled
def log_row(state: Any, slot: Any, peer: int, length: int, count: int, arrival: int, read: int) -> int:
    """Write the row of an answered packet but for `w_proc`; returns its number. There must be room."""
    r = int64(state.me.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = 0, 0, 0
    row.iteration, row.ps, row.op = state.me.iteration, peer, PUSH
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = min(count, _MOST_LANES), 0, slot.attempts
    state.me.rows += 1
    return r


@compiled
def has_stalled(state: Any, now: int) -> bool:
    """Give up after `me.patience` in which nothing has come."""
    me = state.me
    if me.pending and not me.stalled and me.progress and now - me.progress >= me.patience:
        me.stalled, me.stalled_at, me.due = 1, now, NEVER
    return bool(me.stalled)


@compiled
def wake(state: Any, now: int) -> None:
    """Send again what is overdue."""
    if now >= state.me.due and not has_stalled(state, now):
        retransmit(state, now)
        state.me.due = deadline(state)


@compiled
def deadline(state: Any) -> int:
    """When the first of what is on its way is overdue, or an operation has stalled, or NEVER."""
    me = state.me
    if me.stalled:
        return NEVER
    if not (me.pending and me.progress):
        return next_overdue(state)
    return min(next_overdue(state), int64(me.progress + me.patience))


@compiled
def has_left(state: Any, now: int) -> None:
    """Something of the operation is sent: its patience begins with the first of it."""
    me = state.me
    if me.progress == 0:
        me.progress = max(now, 1)
        me.due = min(int64(me.due), int64(me.progress + me.patience))


@compiled
def owes_nothing(_state: Any) -> int:
    """No key: the switch holds nothing."""
    return 0


@compiled
def takes_nothing(_state: Any, _n: int) -> None:
    """There is nothing to be taken."""
