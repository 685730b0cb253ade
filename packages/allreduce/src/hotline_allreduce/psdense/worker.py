"""A worker that pushes each chunk of its vector to a server, which returns the sum of all workers' chunks.

Chunk c is at server c mod n_ps. A push and the pull of its sum are one RPC, as in PS-Lite's ZPushPull: a
server answers when all workers have pushed. So a chunk takes one frame in each direction, and each result
advances the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hotline_agents.interface import NOTHING, WorkerOps, register_worker_ops
from hotline_agents.worker.window import Slot, next_resend, octets
from hotline_allreduce.dense.packet import RESULT, as_packet, read_words, value_count
from hotline_allreduce.dense.vector import (
    VectorHeader,
    begin_operation,
    belongs_to_job,
    belongs_to_vector,
    deadline,
    encode,
    finish_chunk,
    open_vector,
    slot_of,
    take_next_slot,
    wake,
)
from nativekit.bits import swap32
from nativekit.compile import compiled
from nativekit.records import Ints, Records, Words, one_record


class Pusher(NamedTuple):
    """A worker's calls for one job (`VectorState`, `WindowState`); a slot's `call` is its chunk."""

    header: VectorHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words
    vector: Words
    log: Records[RpcRow]


def make_pusher(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> Pusher:
    header = one_record(VectorHeader)
    return Pusher(header=header, **open_vector(header, caller, n_ps, space.size, max_keys, window))


@compiled
def start(state: Pusher, op: int, iteration: int, n_keys: int) -> None:
    header = state.header
    n = begin_operation(state, op, iteration, n_keys)
    header.n_calls = header.pending = (n + header.chunk_size - 1) // header.chunk_size


@compiled
def transmit(state: Pusher, now: int) -> int:
    header = state.header
    if header.stalled:
        return NOTHING
    s = next_resend(state)
    if s != NOTHING or header.first_unsent == header.n_calls or header.n_free == 0:
        return s
    s = take_next_slot(state, now)
    chunk = state.slots[s].call
    encode(state, s, chunk * header.chunk_size, _value_count_of(state, chunk))
    return s


@compiled
def _value_count_of(state: Pusher, chunk: int) -> int:
    chunk_size = state.header.chunk_size
    return min(chunk_size, state.header.n_values - chunk * chunk_size)


@compiled
def peer(state: Pusher, s: int) -> int:
    return state.slots[s].call % state.header.n_ps


@compiled
def receive(state: Pusher, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if not belongs_to_job(state, rpc, length):
        return NOTHING
    packet, count = as_packet(rpc), value_count(length)
    chunk = swap32(packet.chunk)
    s = slot_of(state, chunk) if packet.kind == RESULT and belongs_to_vector(state, rpc) else NOTHING
    if s == NOTHING or packet.worker != header.worker - 1 or count != _value_count_of(state, chunk):
        header.unexpected += 1
        return NOTHING
    read_words(rpc, state.vector, chunk * header.chunk_size, count)
    return finish_chunk(state, s, chunk % header.n_ps, length, count, arrival, read)


WORKER = register_worker_ops(
    Pusher,
    WorkerOps(
        start=start,
        transmit=transmit,
        octets=octets,
        peer=peer,
        wake=wake,
        deadline=deadline,
        receive=receive,
    ),
)
