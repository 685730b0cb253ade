"""A SwitchML worker: an all-reduce, chunk by chunk, in a window that each result advances.

The result of a packet triggers the packet one batch later. Consecutive packets use consecutive slots of the
pool, in each of its two sets in turn. A packet of floats also has the exponent of the chunk one batch later,
so that all workers know that chunk's scale before they send it; the first batch has exponents only.

Block floating point: a chunk's floats as 32-bit integers, with a scale that all workers share.

The exponent e of a chunk is the smallest with all values below 2^e; workers agree on the largest of their
exponents. As in p4lang/p4app-switchML's `cpu_exponent_quantizer_ppp.cc`, in single precision. Two things
differ at the edges: where p4app-switchML's scale overflows to infinity (chunks below about 2^-97), this scale
is the largest float; and no integer exceeds INT32_MAX / n, so that no sum of n integers overflows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NEVER, NOTHING, WorkerOps, register_worker_ops
from foundation.logs.columns import RpcRow
from foundation.protocol.codec import MAX_U32, Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import EMPTY, Rpc
from hosts.keys import KeySpace
from hosts.worker.window import Slot, back_off, next_resend, octets, queue_resend, time_round_trip
from hotline_allreduce.dense.vector import (
    VectorHeader,
    begin_operation,
    deadline,
    end_operation,
    has_stalled,
    log_row,
    open_vector,
)
from hotline_allreduce.switchml.packet import (
    OCTETS,
    SLOTS,
    VALUES,
    chunk_of,
    exponent_of,
    is_result,
    missing_of,
    value_of,
    write_head,
    write_value,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, Words, one_record

MIN_EXPONENT, MAX_EXPONENT = -126, 127
INT32_MAX = 2**31 - 1
MAX_FLOAT32 = float(np.finfo(np.float32).max)
TIMEOUT_NS = 1_000_000
"""Retransmission timeout of the published SwitchML."""
_SWITCH = 0  # as a peer: it has the first service address


class ReducerHeader(VectorHeader):
    """Scalars of the state; times in ns. A slot's `call` is the number of its packet in the all-reduce."""

    OWN_FIELDS_FIRST = True  # `nativekit.records.dtype_of` has the reason

    first_slot: int  # the first of the job's slots in the switch
    first_packet: int  # number of the all-reduce's first packet, counted across all-reduces
    chunks: int  # number of chunks of the vector
    batch_size: int  # maximum number of outstanding packets
    n_packets: int  # number of packets: one a chunk and, for floats, first a batch with exponents only
    incomplete: int  # number of results that lack the values of a worker
    published_timers: int  # whether the timeout is constant, as published for SwitchML


class Reducer(NamedTuple):
    """A worker's calls for one job (`VectorState`); N: parameters, rounded up to whole chunks."""

    header: ReducerHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints  # not used: the number of a packet decides its slot
    resends: Ints  # slots to send, for the first time or again
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    vector: Words  # [N]
    floats: NDArray[np.float32]
    """float32[N]: the addend of an all-reduce of floats, which the result replaces."""
    scales: NDArray[np.float64]  # float64[N / VALUES]: scale of each chunk, agreed on by all workers
    log: Records[RpcRow]


def make_reducer(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> Reducer:
    header = one_record(ReducerHeader)
    padded_size = -(-space.size // VALUES) * VALUES
    arrays = open_vector(header, caller, n_ps, padded_size, max_keys, window)
    header.first_slot = caller.job * WINDOW % SLOTS
    arrays["slots"].length = OCTETS  # all packets have this length in bytes
    return Reducer(
        header=header,
        floats=np.zeros(padded_size, np.float32),
        scales=np.zeros(padded_size // VALUES, np.float64),
        **arrays,
    )


@compiled
def chunk_exponent(floats: NDArray[np.float32], first: int, count: int) -> int:
    """Return the smallest e >= -126 with all `count` values from `first` on below 2^e; values are < 2^127."""
    magnitude = 0.0
    for i in range(first, first + count):
        magnitude = max(magnitude, abs(float(floats[i])))
    _, exponent = math.frexp(magnitude)
    return max(int64(exponent), MIN_EXPONENT) if magnitude > 0.0 else MIN_EXPONENT


@compiled
def scale_of(exponent: int, workers: int) -> float:
    return float(np.float32(min(INT32_MAX / (workers * 2.0**exponent), MAX_FLOAT32)))


@compiled
def as_integer(value: float, scale: float, workers: int) -> int:
    """Return a scaled value, rounded half away from 0."""
    scaled = float(np.float32(value) * np.float32(scale))
    limit = INT32_MAX // workers
    rounded = min(int64(math.floor(abs(scaled) + 0.5)), limit)
    return -rounded if scaled < 0.0 else rounded


@compiled
def as_float(total: int, scale: float) -> float:
    """Return the float that a sum of scaled integers represents; infinity above `MAX_FLOAT32`."""
    return float(np.float32(total) / np.float32(scale))


def error_bound(exponent: int, workers: int, size: float) -> float:
    """Return the largest error of a sum whose addends have absolute values that add up to `size`.

    Each addend is rounded to a multiple of 1 / scale; its product with the scale, the sum and its quotient
    are rounded to 24 bits, and results below 2^-126 to fewer.
    """
    scale = float(np.float32(min(INT32_MAX / (workers * 2.0**exponent), MAX_FLOAT32)))
    # Clipping to INT32_MAX // n can change a value next to 2^e by a rounding error of its product.
    # 2^-24 is the unit roundoff of float32, and 2^-149 its smallest number above 0.
    return (0.5 + 2.0**-24 * INT32_MAX / workers + 1) * workers / scale + 2.0**-22 * size + 2.0**-149


@compiled
def start(state: Reducer, op: int, iteration: int, n_keys: int) -> None:
    """Begin an operation; an empty RPC sends a chunk of zeros."""
    size = begin_operation(state, op, iteration, n_keys)
    if op == EMPTY:
        state.vector[:VALUES] = 0
    if size:
        _begin_all_reduce(state, size)


@compiled
def _begin_all_reduce(state: Reducer, size: int) -> None:
    header = state.header
    header.chunks = (size + VALUES - 1) // VALUES
    header.batch_size = min(int64(header.window), int64(header.chunks))
    header.n_packets = header.chunks + (header.batch_size if header.is_float else 0)
    header.n_calls = header.pending = header.n_packets
    if header.published_timers:
        header.timeout = TIMEOUT_NS
    header.first_resend = header.queued_resends = 0
    for s in range(WINDOW):
        state.slots[s].busy = state.slots[s].queued = 0
    for packet in range(int64(header.batch_size)):
        _queue_packet(state, packet)


@compiled
def _queue_packet(state: Reducer, packet: int) -> None:
    """Queue a packet for its first transmission, in the slot of the packet a batch before."""
    s = packet % int64(state.header.batch_size)
    slot = state.slots[s]
    slot.busy, slot.call, slot.attempts, slot.deadline = 1, packet, 0, NEVER
    if not slot.queued:
        queue_resend(state, s, int64(state.header.queued_resends))


@compiled
def transmit(state: Reducer, now: int) -> int:
    header, s = state.header, next_resend(state)
    if s == NOTHING:
        return NOTHING
    slot = state.slots[s]
    if slot.attempts == 0:
        _encode_packet(state, int64(slot.call), state.sent[s])
        slot.t0 = slot.last_sent = now
        slot.attempts = 1
        slot.deadline = now + header.timeout
        header.due = min(int64(header.due), int64(slot.deadline))
        if header.last_arrival == 0:
            header.last_arrival = max(now, 1)  # 0 means that nothing was sent yet
    return s


@compiled
def _numbers(header: ReducerHeader) -> int:
    """Return the number of packet numbers: the largest of 32 bits of which a pass over both sets divides."""
    pass_length = 2 * int64(header.window)
    return (MAX_U32 + 1) // pass_length * pass_length


@compiled
def _encode_packet(state: Reducer, packet: int, rpc: Rpc) -> None:
    header = state.header
    workers, exponent, chunk = int64(header.workers), int64(0), packet
    if header.is_float:
        chunk -= int64(header.batch_size)
        if packet < header.chunks:
            exponent = chunk_exponent(state.floats, packet * VALUES, VALUES)
    number = (int64(header.first_packet) + packet) % _numbers(header)
    window = int64(header.window)
    position = number % (2 * window)
    write_head(
        rpc,
        int64(header.round_number),
        number,
        int64(header.first_slot) + position % window,
        position // window,
        exponent,
    )
    for i in range(VALUES):
        value = int64(0)
        if chunk >= 0:
            k = chunk * VALUES + i
            if header.is_float:
                value = as_integer(float(state.floats[k]), float(state.scales[chunk]), workers)
            else:
                value = int64(state.vector[k])
        write_value(rpc, i, value)


@compiled
def peer(_state: Reducer, _slot: int) -> int:
    return _SWITCH


@compiled
def wake(state: Reducer, now: int) -> None:
    header = state.header
    if now < header.due:
        return
    if has_stalled(state, now):
        header.queued_resends = 0
        return
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            if not header.published_timers:
                back_off(header, int64(slot.last_sent), now)
            slot.last_sent = now
            slot.attempts += 1
            header.retransmissions += 1
            if not slot.queued:
                queue_resend(state, s, int64(state.header.queued_resends))
    # In a second loop, as in `hosts.worker.window.retransmit`.
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + header.timeout
    header.due = deadline(state)


@compiled
def receive(state: Reducer, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if length != OCTETS:
        header.malformed += 1
        return NOTHING
    number, numbers = chunk_of(rpc), _numbers(header)
    packet = (number - int64(header.first_packet)) % numbers
    is_in_range = header.pending and number < numbers and packet < header.n_packets
    if not is_in_range or not is_result(rpc, length, int64(header.round_number)):
        header.unexpected += 1
        return NOTHING
    slot = state.slots[packet % int64(header.batch_size)]
    if not (slot.busy and slot.attempts and slot.call == packet):
        header.unexpected += 1
        return NOTHING
    if not header.published_timers:
        time_round_trip(state, slot, read)
    header.incomplete += missing_of(rpc) > 0
    _store_result(state, rpc, packet)
    row = log_row(state, slot, _SWITCH, OCTETS, VALUES, arrival, read)
    state.log[row].served = VALUES
    slot.busy = 0
    header.last_arrival = read
    header.pending -= 1
    if packet + header.batch_size < header.n_packets:
        _queue_packet(state, packet + int64(header.batch_size))
    if header.pending == 0:
        header.first_packet = (header.first_packet + header.n_packets) % numbers
        header.due = NEVER
        end_operation(state)
    return row


@compiled
def _store_result(state: Reducer, rpc: Rpc, packet: int) -> None:
    header, chunk = state.header, packet
    if header.is_float:
        chunk -= int64(header.batch_size)
    for i in range(VALUES if chunk >= 0 else 0):
        total = value_of(rpc, i)
        if header.is_float:
            state.floats[chunk * VALUES + i] = as_float(total, float(state.scales[chunk]))
        else:
            state.vector[chunk * VALUES + i] = np.uint32(total & MAX_U32)
    if header.is_float and packet < header.chunks:
        state.scales[packet] = scale_of(exponent_of(rpc), int64(header.workers))


WORKER = register_worker_ops(
    Reducer,
    WorkerOps(start, transmit, octets, peer, wake, deadline, receive),
)
