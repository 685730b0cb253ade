"""A worker's half: each chunk of its vector goes to a server, and comes back as the sum of all workers'.

Chunk c is at server c mod n_ps. A push and the pull of its sum are one RPC, as PS-Lite's ZPushPull: a server
answers when all workers have pushed. So a chunk takes one frame up and one down, and results move the window
on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NOTHING, WorkerOps, register_worker_ops
from foundation.logs.columns import Row
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import Rpc
from hosts.dense.packet import RESULT
from hosts.dense.vector import (
    VectorHeader,
    begin,
    deadline,
    encode,
    finish,
    is_of_job,
    is_of_vector,
    open_vector,
    slot_of,
    take_next,
    wake,
)
from hosts.dense.wire import as_packet, count_of, read_words
from hosts.keys import KeySpace
from hosts.worker.window import Slot, next_resend, octets
from nativekit.bits import swap32
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, Words, one


class Pusher(NamedTuple):
    """A worker's calls for one job; N is the size of its vector, B that of an operation."""

    header: VectorHeader
    """A record of numbers."""
    slots: Records[Slot]
    """SLOT[WINDOW]: `call` is the chunk."""
    sent: Records[Rpc]
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    free: Ints
    """int64[WINDOW], as `hosts.worker.window` has it."""
    resends: Ints
    """int64[WINDOW], likewise."""
    positions: Ints
    """int64[B]: of an operation's parameters."""
    deltas: Words
    """uint32[B]: what a push adds."""
    values: Words
    """uint32[B]: what a pull brings."""
    answered: NDArray[np.bool_]
    """bool[>= B]: deltas that are known to be applied; the caller's."""
    model: Words
    """uint32[N]: the parameters, which all workers have alike."""
    vector: Words
    """uint32[N]: addends, and sums in their place."""
    log: Records[Row]
    """ROW[n]: results, the first header.rows."""


def make_pusher(
    caller: Caller, n_ps: int, space: KeySpace, largest: int, window: int, rows: int = 1024
) -> Pusher:
    """A worker that is idle, with a vector of so many values; raises `ValueError` for a window that cannot
    be."""
    header = one(VectorHeader)
    return Pusher(header=header, **open_vector(header, caller, n_ps, space.size, largest, window, rows))


@compiled
def start(state: Pusher, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation: a chunk is an RPC."""
    header = state.header
    n = begin(state, op, iteration, n_keys)
    header.calls = header.pending = (n + header.full - 1) // header.full


@compiled
def transmit(state: Pusher, now: int) -> int:
    """The slot whose datagram is to be sent at once, or NOTHING."""
    header = state.header
    if header.stalled:
        return NOTHING
    s = next_resend(state)
    if s != NOTHING or header.unsent == header.calls or header.free == 0:
        return s
    s = take_next(state, now)
    chunk = int64(state.slots[s].call)
    encode(state, s, chunk * int64(header.full), _values_in(state, chunk))
    return s


@compiled
def _values_in(state: Pusher, chunk: int) -> int:
    return min(int64(state.header.full), int64(state.header.n) - chunk * int64(state.header.full))


@compiled
def peer(state: Pusher, s: int) -> int:
    """The server that it goes to."""
    return int64(state.slots[s].call % state.header.n_ps)


@compiled
def receive(state: Pusher, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Take in a sum; its row of the log, or NOTHING."""
    header = state.header
    if not is_of_job(state, rpc, length):
        return NOTHING
    packet, count = as_packet(rpc), count_of(length)
    chunk = swap32(packet.chunk)
    s = slot_of(state, chunk) if packet.kind == RESULT and is_of_vector(state, rpc) else NOTHING
    if s == NOTHING or packet.worker != header.worker - 1 or count != _values_in(state, chunk):
        header.unexpected += 1
        return NOTHING
    read_words(rpc, state.vector, chunk * int64(header.full), count)
    return finish(state, s, chunk % int64(header.n_ps), length, count, arrival, read)


WORKER = register_worker_ops(
    Pusher,
    WorkerOps(start, transmit, octets, peer, wake, deadline, receive),
)
