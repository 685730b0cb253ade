"""An ATP worker: an all-reduce with a window that begins after the contiguously acknowledged packets.

A worker sends the packets in the window. After an acknowledgement that leaves a gap it resends the packets
of the gap, once. Timeouts are those of all agents, or the published ones: the first packet without a sum is
resent if nothing has come for 50 ms, or, after the first arrival in an all-reduce, for 0.2 ms.

The cells of a job are hashes of the job and the place in the window, without repetition within a worker. As
in in-ATP/ATP's `common/HashTable.cc`, they are the CRC-32 of job, place and a salt, each in two little-endian
bytes, cut to 16 bits, modulo the number of cells. So with 20,000 cells the first 5,536 are hit a third more
often. The salt grows until the cell is not in the worker's list.

Floats become integers if they are small enough: multiplied by 10^6 and rounded, in single precision. As in
in-ATP/ATP's `common/quantize.h` and `client/p4ml_manager.h`, a packet with a value beyond 213 has floats. Ten
workers can add up the integers of other packets without an overflow. Sums of more workers may saturate; the
workers then send floats, too.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hotline_agents.datagram_view import as_signed
from hotline_agents.interface import NEVER, NOTHING, WorkerOps, register_worker_ops
from hotline_agents.worker.window import Slot, next_resend, octets, queue_resend
from hotline_allreduce.atp.design import settings_of_job
from hotline_allreduce.atp.packet import (
    ACK,
    CELLS,
    COLLISION,
    ECN,
    MAX_SEQUENCE,
    OCTETS,
    OVERFLOW,
    RESEND,
    SERVER_SHIFT,
    VALUES,
    app_of,
    flags_of,
    key_of,
    length_of,
    sequence_of,
    value_of,
    write_head,
    write_value,
)
from hotline_allreduce.dense.vector import (
    VectorHeader,
    begin_operation,
    finish_chunk,
    has_stalled,
    open_vector,
    slot_of,
    take_next_slot,
)
from hotline_allreduce.dense.vector import deadline as deadline_of_slots
from hotline_allreduce.dense.vector import wake as wake_slots
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets, Records, Words, one_record

_FIRST_BYTE_VALUES = 255
"""Number of values of the salt's first byte (0 to 254, as in ATP), after which the second byte grows."""
SCALE = 1e6  # number of units in 1.0
MAX_MAGNITUDE = 213.0  # of floats that are sent as integers
FIRST_TIMEOUT_NS, TIMEOUT_NS = 50_000_000, 200_000
_NO_FLAGS = 0
FRAME_BYTES, GROWTH_BYTES = 308, 1_500
"""Size of a frame, and growth of a window, in the published code."""


class AtpHeader(VectorHeader):
    """Scalars of the state; times in ns."""

    OWN_FIELDS_FIRST = True  # `nativekit.records.dtype_of` has the reason

    first_missing: int  # index of the first chunk without its sum
    gap_end: int  # end of the last resent gap; no other is resent before `first_missing` reaches it
    window_size: int  # current size of the window, in packets; at most `window`
    end_of_window: int  # number of chunks up to the chunk whose sum adapts the window
    is_adaptive: int  # whether the window's size changes
    published_timers: int  # whether timeouts are those of the published code
    last_activity: int  # time of the last arrival or timeout; used with `published_timers`
    has_received: int  # whether anything has arrived in this all-reduce


class AtpWorker(NamedTuple):
    """A worker's calls for one job; a slot's `call` is its chunk, N the number of values of all chunks."""

    header: AtpHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    vector: Words  # [N]
    floats: NDArray[np.float32]
    """float32[N]: the addends of an all-reduce of floats, which the sums replace."""
    float_chunks: Octets  # uint8[N / VALUES]: whether a chunk is sent as floats
    done: Octets  # uint8[N / VALUES]: whether a chunk has its sum
    places: Ints  # int64[WINDOW]: the cell of each place in the window
    is_initial_cell: Octets  # uint8[CELLS]: whether a cell was one of the initial `places`
    log: Records[RpcRow]


def make_worker(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> AtpWorker:
    chunks = -(-space.size // VALUES)
    if chunks > MAX_SEQUENCE:
        raise ValueError(f"expected a vector of at most {MAX_SEQUENCE * VALUES} values, got {space.size}")
    header = one_record(AtpHeader)
    arrays = open_vector(header, caller, n_ps, chunks * VALUES, max_keys, window)
    header.chunk_size, header.is_adaptive = VALUES, 1
    header.published_timers = settings_of_job(caller.job).published_timers
    places, is_initial_cell = cells_of(caller.job, WINDOW), np.zeros(CELLS, np.uint8)
    is_initial_cell[places] = 1
    return AtpWorker(
        header=header, floats=np.zeros(chunks * VALUES, np.float32),
        float_chunks=np.zeros(chunks, np.uint8), done=np.zeros(chunks, np.uint8), places=places,
        is_initial_cell=is_initial_cell, **arrays,
    )  # fmt: skip


def cells_of(app: int, places: int, cells: int = CELLS) -> NDArray[np.int64]:
    """Return a job's initial cells, int64[places]; raise `ValueError` for more places than cells."""
    if places > cells:
        raise ValueError(f"expected at most {cells} places, got {places}")
    job_cells: dict[int, None] = {}
    for place in range(places):
        salt = 0
        while (cell := _hash(app, place, salt) % cells) in job_cells:
            salt += 1
        job_cells[cell] = None
    return np.array(list(job_cells), np.int64)


def _hash(app: int, place: int, salt: int) -> int:
    second, first = divmod(salt, _FIRST_BYTE_VALUES)
    return zlib.crc32(struct.pack("<HHBB", app, place & 0xFFFF, first, second)) & 0xFFFF


@compiled
def fit_integer_sums(floats: NDArray[np.float32], first: int, count: int) -> bool:
    magnitude = 0.0
    for i in range(first, first + count):
        magnitude = max(magnitude, abs(float(floats[i])))
    return magnitude <= MAX_MAGNITUDE


@compiled
def as_integer(value: float) -> int:
    """Return a scaled value, rounded half away from 0."""
    scaled = float(np.float32(value) * np.float32(SCALE))
    rounded = math.floor(abs(scaled) + 0.5)
    return -rounded if scaled < 0.0 else rounded


@compiled
def as_float(total: int) -> float:
    return float(np.float32(total) / np.float32(SCALE))


@compiled
def start(state: AtpWorker, op: int, iteration: int, n_keys: int) -> None:
    header = state.header
    n = begin_operation(state, op, iteration, n_keys)
    header.n_calls = header.pending = (n + VALUES - 1) // VALUES
    header.first_missing = header.gap_end = header.has_received = 0
    header.window_size = header.end_of_window = header.window
    state.done[:] = 0
    for chunk in range(header.n_calls if header.is_float else 0):
        state.float_chunks[chunk] = not fit_integer_sums(state.floats, chunk * VALUES, VALUES)


@compiled
def transmit(state: AtpWorker, now: int) -> int:
    header = state.header
    if header.stalled:
        return NOTHING
    s = next_resend(state)
    if s != NOTHING:
        _encode_chunk(state, s, RESEND)
        return s
    limit = header.first_missing + header.window_size
    if header.first_unsent == header.n_calls or header.first_unsent >= limit or header.n_free == 0:
        return NOTHING
    s = take_next_slot(state, now)
    _encode_chunk(state, s, _NO_FLAGS)
    # At the first transmission of an all-reduce, `take_next_slot` sets `last_arrival`: time it from now.
    if header.last_activity < header.last_arrival:
        header.last_activity = now
    header.due = min(header.due, deadline(state))
    return s


@compiled
def _encode_chunk(state: AtpWorker, s: int, flags: int) -> None:
    header, slot, rpc = state.header, state.slots[s], state.sent[s]
    chunk = slot.call
    is_float = header.is_float and state.float_chunks[chunk]
    if is_float:
        flags |= OVERFLOW  # marks a packet of floats
    flags |= peer(state, s) << SERVER_SHIFT
    write_head(
        rpc, 1 << header.worker - 1, header.workers, flags, header.job, chunk + 1,
        int64(state.places[chunk % header.window]), header.round_number, header.n_values,
    )  # fmt: skip
    first = chunk * VALUES
    words = state.floats.view(np.uint32) if is_float else state.vector
    for i in range(VALUES):
        if header.is_float and not is_float:
            write_value(rpc, i, as_integer(float(state.floats[first + i])))
        else:
            write_value(rpc, i, int64(words[first + i]))
    slot.length = OCTETS


@compiled
def peer(state: AtpWorker, _s: int) -> int:
    """Return the server of the current all-reduce; servers take all-reduces in turn."""
    return state.header.round_number % state.header.n_ps


@compiled
def wake(state: AtpWorker, now: int) -> None:
    header = state.header
    if not header.published_timers:
        wake_slots(state, now)
        return
    if now < header.due or has_stalled(state, now):
        return
    if header.pending and header.last_arrival and now - header.last_activity >= _timeout(state):
        _resend_chunk(state, header.first_missing, now)
        header.last_activity = now
    header.due = deadline(state)


@compiled
def _timeout(state: AtpWorker) -> int:
    return TIMEOUT_NS if state.header.has_received else FIRST_TIMEOUT_NS


@compiled
def deadline(state: AtpWorker) -> int:
    header = state.header
    if not header.published_timers:
        return deadline_of_slots(state)
    if header.stalled or not (header.pending and header.last_arrival):
        return NEVER
    due = header.last_activity + _timeout(state)
    return min(due, header.last_arrival + header.stall_timeout)


@compiled
def _resend_chunk(state: AtpWorker, chunk: int, now: int) -> None:
    header, s = state.header, slot_of(state, chunk)
    if s == NOTHING:
        return
    slot = state.slots[s]
    slot.last_sent, slot.deadline = now, now + header.timeout
    slot.attempts += 1
    header.retransmissions += 1
    if not slot.queued:
        queue_resend(state, s, header.queued_resends)


@compiled
def receive(state: AtpWorker, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if length != OCTETS:
        header.malformed += 1
        return NOTHING
    header.has_received, header.last_activity = 1, read
    header.due = min(header.due, deadline(state))
    flags, chunk = flags_of(rpc), sequence_of(rpc) - 1
    is_current = header.pending and flags & ACK and key_of(rpc) == header.round_number
    if not is_current or app_of(rpc) != header.job or not 0 <= chunk < header.n_calls:
        header.unexpected += 1
        return NOTHING
    if flags & OVERFLOW and not flags & RESEND:  # a request for floats; a sum of floats has both flags
        state.float_chunks[chunk] = 1
        return NOTHING
    s = slot_of(state, chunk)
    if s == NOTHING:
        header.unexpected += 1
        return NOTHING
    _adopt_cell(state, chunk, flags, length_of(rpc))  # with COLLISION, the length is the new cell
    _store_sums(state, rpc, chunk, flags)
    state.done[chunk] = 1
    while header.first_missing < header.n_calls and state.done[header.first_missing]:
        header.first_missing += 1
    _adapt_window(state, chunk, flags)
    row = finish_chunk(state, s, peer(state, s), length, VALUES, arrival, read)
    if header.first_missing >= header.gap_end:
        _resend_gap(state, read)
    return row


@compiled
def _adopt_cell(state: AtpWorker, chunk: int, flags: int, cell: int) -> None:
    """Adopt the replacement of a collided cell, unless it is one of the worker's initial cells."""
    if flags & COLLISION and cell < len(state.is_initial_cell) and not state.is_initial_cell[cell]:
        state.places[chunk % state.header.window] = cell


@compiled
def _store_sums(state: AtpWorker, rpc: Rpc, chunk: int, flags: int) -> None:
    header, first = state.header, chunk * VALUES
    for i in range(VALUES):
        word = value_of(rpc, i)
        if not header.is_float:
            state.vector[first + i] = np.uint32(word)
        elif flags & OVERFLOW:
            state.floats.view(np.uint32)[first + i] = np.uint32(word)
        else:
            state.floats[first + i] = as_float(as_signed(word))


@compiled
def _adapt_window(state: AtpWorker, chunk: int, flags: int) -> None:
    header = state.header
    if header.is_adaptive and chunk + 1 == header.end_of_window:
        header.window_size = next_window(header.window_size, flags & ECN, header.window)
        header.end_of_window += header.window_size


@compiled
def next_window(window_size: int, is_congested: int, max_window: int) -> int:
    n_bytes = window_size * FRAME_BYTES // 2 if is_congested else window_size * FRAME_BYTES + GROWTH_BYTES
    return max(1, min(n_bytes // FRAME_BYTES, max_window))


@compiled
def _resend_gap(state: AtpWorker, now: int) -> None:
    """Resend the chunks of the first gap, which ends at the next chunk that has its sum."""
    header = state.header
    end = header.first_missing
    while end < header.first_unsent and not state.done[end]:
        end += 1
    if end < header.first_unsent:
        for chunk in range(header.first_missing, end):
            _resend_chunk(state, chunk, now)
        header.gap_end = end


WORKER = register_worker_ops(
    AtpWorker,
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
