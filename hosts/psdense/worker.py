"""A worker's half: each chunk of its vector goes to a server, and comes back as the sum of all workers'.

Chunk c is at server c mod n_ps. A push and the pull of its sum are one RPC, as PS-Lite's ZPushPull: a server
answers when all workers have pushed. So a chunk takes one frame up and one down, and results move the window
on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.designs.halves import worker_half
from foundation.designs.interface import NOTHING, WorkerHalf
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.dense.packet import ADDEND, RESULT, SIZE
from hosts.dense.vector import (
    ME,
    begin,
    deadline,
    end,
    has_left,
    is_of_job,
    is_of_vector,
    log_row,
    owes_nothing,
    slot_of,
    takes_nothing,
    wake,
)
from hosts.dense.wire import as_packet, count_of, read_words, write_head, write_words
from hosts.worker.lockstep import PATIENCE_NS
from hosts.worker.row import ROW
from hosts.worker.window import SLOT, free_slot, next_again, open_window, take_slot, time_round_trip
from nativekit.bits import swap32
from nativekit.compile import compiled, int64
from nativekit.records import record, records

_ME = record(*ME)


class Pusher(NamedTuple):
    """A worker's calls for one job; N is the size of its vector, B that of an operation."""

    me: Any
    """A record of numbers."""
    slots: Any
    """SLOT[WINDOW]: `call` is the chunk."""
    sent: Any
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    free: Any
    """int64[WINDOW], as `hosts.worker.window` has it."""
    again: Any
    """int64[WINDOW], likewise."""
    positions: Any
    """int64[B]: of an operation's parameters."""
    deltas: Any
    """uint32[B]: what a push adds."""
    values: Any
    """uint32[B]: what a pull brings."""
    answered: Any
    """bool[>= B]: deltas that are known to be applied; the caller's."""
    model: Any
    """uint32[N]: the parameters, which all workers have alike."""
    vector: Any
    """uint32[N]: addends, and sums in their place."""
    log: Any
    """ROW[n]: results, the first me.rows."""


def make_pusher(
    job: int, worker: int, epoch: int, *, n_ps: int, size: int, largest: int, window: int = WINDOW,
    rows: int = 1024,
) -> Pusher:  # fmt: skip
    """A worker that is idle, with a vector of so many values; raises `ValueError` for a window that cannot
    be."""
    me = records(1, _ME)[0]
    free = open_window(me, job, worker, epoch, window)
    me.n_ps, me.workers, me.full, me.patience = n_ps, 1, SIZE, PATIENCE_NS
    return Pusher(
        me=me,
        slots=records(WINDOW, SLOT),
        sent=rpcs(WINDOW),
        free=free,
        again=np.zeros(WINDOW, np.int64),
        positions=np.zeros(largest, np.int64),
        deltas=np.zeros(largest, np.uint32),
        values=np.zeros(largest, np.uint32),
        answered=np.zeros(largest, np.bool_),
        model=np.zeros(size, np.uint32),
        vector=np.zeros(size, np.uint32),
        log=records(rows, ROW),
    )


@compiled
def start(state: Pusher, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation: a chunk is an RPC."""
    me = state.me
    n = begin(state, op, iteration, n_keys)
    me.calls = me.pending = (n + me.full - 1) // me.full


@compiled
def transmit(state: Pusher, now: int) -> int:
    """The slot whose datagram is to be sent at once, or NOTHING."""
    me = state.me
    if me.stalled:
        return NOTHING
    s = next_again(state)
    if s != NOTHING or me.unsent == me.calls or me.free == 0:
        return s
    chunk = int64(me.unsent)
    me.unsent += 1
    s = take_slot(state, chunk, now)
    state.slots[s].length = _encode(state, chunk, state.sent[s])
    has_left(state, now)
    return s


@compiled
def _encode(state: Pusher, chunk: int, rpc: Rpc) -> int:
    me = state.me
    write_head(
        rpc, ADDEND, int64(me.is_float), int64(me.job), int64(me.worker) - 1, int64(me.workers),
        int64(me.full), int64(me.number), chunk,
    )  # fmt: skip
    return write_words(rpc, state.vector, chunk * int64(me.full), _values_in(state, chunk))


@compiled
def _values_in(state: Pusher, chunk: int) -> int:
    return min(int64(state.me.full), int64(state.me.n) - chunk * int64(state.me.full))


@compiled
def octets(state: Pusher, s: int) -> int:
    """Length of a slot's datagram."""
    return int64(state.slots[s].length)


@compiled
def peer(state: Pusher, s: int) -> int:
    """The server that it goes to."""
    return int64(state.slots[s].call % state.me.n_ps)


@compiled
def receive(state: Pusher, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Take in a sum; its row of the log, or NOTHING."""
    me = state.me
    if not is_of_job(state, rpc, length):
        return NOTHING
    packet, count = as_packet(rpc), count_of(length)
    chunk = swap32(packet.chunk)
    s = slot_of(state, chunk) if packet.kind == RESULT and is_of_vector(state, rpc) else NOTHING
    if s == NOTHING or packet.worker != me.worker - 1 or count != _values_in(state, chunk):
        me.unexpected += 1
        return NOTHING
    slot = state.slots[s]
    time_round_trip(state, slot, read)
    read_words(rpc, state.vector, chunk * int64(me.full), count)
    row = log_row(state, slot, chunk % int64(me.n_ps), length, count, arrival, read)
    free_slot(state, slot)
    me.progress = read
    me.pending -= 1
    if me.pending == 0:
        end(state)
    return row


WORKER = worker_half(
    Pusher,
    WorkerHalf(start, transmit, octets, peer, wake, deadline, receive, owes_nothing, takes_nothing),
)
