"""An ATP worker: an all-reduce with a window that begins after the contiguously acknowledged packets.

A worker sends the packets in the window. After an acknowledgement that leaves a gap it resends the packets
of the gap, once. Timeouts are those of all agents, or the published ones: the first packet without a sum is
resent if nothing has come for 50 ms, or, after the first arrival in an all-reduce, for 0.2 ms.
"""

from __future__ import annotations

import numpy as np

from foundation.designs.interface import NEVER, NOTHING, WorkerOps, register_worker_ops
from foundation.protocol.rpc import Rpc
from hosts.datagram_view import as_signed
from hosts.worker.window import next_resend, octets, queue_resend
from hotline_allreduce.atp.floats import as_float, as_integer, fit_integer_sums
from hotline_allreduce.atp.packet import ACK, COLLISION, ECN, OCTETS, OVERFLOW, RESEND, SERVER_SHIFT, VALUES
from hotline_allreduce.atp.state import AtpWorker
from hotline_allreduce.atp.wire import (
    app_of,
    flags_of,
    key_of,
    length_of,
    sequence_of,
    value_of,
    write_head,
    write_value,
)
from hotline_allreduce.dense.vector import begin_operation, finish_chunk, has_stalled, slot_of, take_next_slot
from hotline_allreduce.dense.vector import deadline as deadline_of_slots
from hotline_allreduce.dense.vector import wake as wake_slots
from nativekit.compile import compiled, int64

FIRST_TIMEOUT_NS, TIMEOUT_NS = 50_000_000, 200_000
_NO_FLAGS = 0
FRAME_BYTES, GROWTH_BYTES = 308, 1_500
"""Size of a frame, and growth of a window, in the published code."""


@compiled
def start(state: AtpWorker, op: int, iteration: int, n_keys: int) -> None:
    header = state.header
    n = begin_operation(state, op, iteration, n_keys)
    header.n_calls = header.pending = (n + VALUES - 1) // VALUES
    header.first_missing = header.gap_end = header.has_received = 0
    header.window_size = header.end_of_window = header.window
    state.done[:] = 0
    for chunk in range(int64(header.n_calls) if header.is_float else 0):
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
    header.due = min(int64(header.due), deadline(state))
    return s


@compiled
def _encode_chunk(state: AtpWorker, s: int, flags: int) -> None:
    header, slot, rpc = state.header, state.slots[s], state.sent[s]
    chunk = int64(slot.call)
    is_float = header.is_float and state.float_chunks[chunk]
    if is_float:
        flags |= OVERFLOW  # marks a packet of floats
    flags |= peer(state, s) << SERVER_SHIFT
    write_head(
        rpc, 1 << int64(header.worker) - 1, int64(header.workers), flags, int64(header.job), chunk + 1,
        int64(state.places[chunk % int64(header.window)]), int64(header.round_number), int64(header.n_values),
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
    return int64(state.header.round_number % state.header.n_ps)


@compiled
def wake(state: AtpWorker, now: int) -> None:
    header = state.header
    if not header.published_timers:
        wake_slots(state, now)
        return
    if now < header.due or has_stalled(state, now):
        return
    if header.pending and header.last_arrival and now - header.last_activity >= _timeout(state):
        _resend_chunk(state, int64(header.first_missing), now)
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
        return int64(NEVER)
    due = int64(header.last_activity + _timeout(state))
    return min(due, int64(header.last_arrival + header.stall_timeout))


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
        queue_resend(state, s, int64(header.queued_resends))


@compiled
def receive(state: AtpWorker, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header = state.header
    if length != OCTETS:
        header.malformed += 1
        return NOTHING
    header.has_received, header.last_activity = 1, read
    header.due = min(int64(header.due), deadline(state))
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
        state.places[chunk % int64(state.header.window)] = cell


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
        header.window_size = next_window(int64(header.window_size), flags & ECN, int64(header.window))
        header.end_of_window += header.window_size


@compiled
def next_window(window_size: int, is_congested: int, max_window: int) -> int:
    n_bytes = window_size * FRAME_BYTES // 2 if is_congested else window_size * FRAME_BYTES + GROWTH_BYTES
    return max(1, min(n_bytes // FRAME_BYTES, max_window))


@compiled
def _resend_gap(state: AtpWorker, now: int) -> None:
    """Resend the chunks of the first gap, which ends at the next chunk that has its sum."""
    header = state.header
    end = int64(header.first_missing)
    while end < header.first_unsent and not state.done[end]:
        end += 1
    if end < header.first_unsent:
        for chunk in range(int64(header.first_missing), end):
            _resend_chunk(state, chunk, now)
        header.gap_end = end


WORKER = register_worker_ops(
    AtpWorker,
    WorkerOps(start, transmit, octets, peer, wake, deadline, receive),
)
