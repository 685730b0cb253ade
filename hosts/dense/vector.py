"""What a worker of these designs does with its vector before and after it is added up, and when it gives up.

A vector has N values."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NEVER
from foundation.logs.columns import ROW
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import ALL, EMPTY, PULL, PUSH, Rpc
from hosts.dense.packet import ADDEND, SIZE
from hosts.dense.wire import as_packet, is_sound, write_head, write_words
from hosts.worker.arrays import OperandArrays, WindowArrays, operand_arrays, window_arrays
from hosts.worker.lockstep import FLOATS, PATIENCE_NS
from hosts.worker.window import (
    Slot,
    WindowHeader,
    WindowState,
    free_slot,
    next_overdue,
    open_window,
    retransmit,
    take_slot,
    time_round_trip,
)
from nativekit.bits import swap16, swap32
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Words


class VectorHeader(WindowHeader):
    """What `header` of these designs' states has; times in ns."""

    n_ps: int
    workers: int
    op: int
    iteration: int
    n_keys: int
    n: int
    """Values of the vector that is added up."""
    full: int
    """Values of a whole chunk."""
    is_float: int
    number: int
    """Which all-reduce it is."""
    calls: int
    """Packets of the operation."""
    pending: int
    """Packets that are to come."""
    unsent: int
    """The first packet that has not been sent."""
    progress: int
    """When something came last."""
    patience: int
    stalled: int
    stalled_at: int


class VectorState(WindowState, Protocol):
    """What these functions work on."""

    @property
    def header(self) -> VectorHeader:
        """The record of numbers."""

    @property
    def vector(self) -> Words:
        """uint32[N]: what this worker adds, in whose place the sums of all come."""

    @property
    def model(self) -> Words:
        """uint32[N]: the parameters, which all workers have alike."""

    @property
    def positions(self) -> Ints:
        """int64[B]: positions of an operation's parameters."""

    @property
    def deltas(self) -> Words:
        """uint32[B]: what a push adds."""

    @property
    def values(self) -> Words:
        """uint32[B]: what a pull brings."""

    @property
    def answered(self) -> NDArray[np.bool_]:
        """bool[>= B]: which deltas are known to be applied."""


_MOST_LANES = np.iinfo(ROW["lanes"]).max


class VectorArrays(WindowArrays, OperandArrays):
    """The arrays that all of these designs have; N is the size of the vector."""

    free: Ints
    model: Words
    vector: Words


def open_vector(
    header: VectorHeader,
    caller: Caller,
    n_ps: int,
    size: int,
    largest: int,
    window: int,
    rows: int,
    more_datagrams: int = 0,
) -> VectorArrays:
    """Begin as an idle worker with a vector of `size` values; raises `ValueError` for an impossible window.

    `more_datagrams` are buffers behind those of the window's slots.
    """
    free = open_window(header, caller, window)
    header.n_ps, header.workers, header.full, header.patience = n_ps, 1, SIZE, PATIENCE_NS
    return {
        **window_arrays(rows, more_datagrams),
        **operand_arrays(largest),
        "free": free,
        "model": np.zeros(size, np.uint32),
        "vector": np.zeros(size, np.uint32),
    }


@compiled
def begin(state: VectorState, op: int, iteration: int, n_keys: int) -> int:
    """Begin an operation: how many values are to be added up, 0 for a pull, which is over at once.

    A pull reads the worker's own model. A push adds the deltas of all workers to it: all push together. An
    empty call adds up a 0. Others add up the first `n_keys` values."""
    header = state.header
    header.op, header.iteration, header.n_keys, header.n = op, iteration, n_keys, n_keys
    header.calls = header.unsent = 0
    if op == PULL:
        for i in range(n_keys):
            state.values[i] = state.model[state.positions[i]]
        return 0
    if op == PUSH:
        header.n = len(state.vector)
        state.vector[:] = 0
        for i in range(n_keys):
            state.vector[state.positions[i]] = state.deltas[i]
    elif op == EMPTY:
        header.n, header.n_keys = 1, 0
        state.vector[0] = 0
    header.is_float = op == FLOATS
    header.number += 1
    header.progress = header.stalled = 0
    return int64(header.n)


@compiled
def end(state: VectorState) -> None:
    """All sums are there; a push is applied."""
    header = state.header
    if header.op == PUSH:
        for k in range(len(state.vector)):
            state.model[k] += state.vector[k]
        for i in range(int64(header.n_keys)):
            state.answered[i] = True


@compiled
def is_of_job(state: VectorState, rpc: Rpc, length: int) -> bool:
    """Whether a datagram is a packet of this worker's job; counts what is not."""
    header = state.header
    if not is_sound(rpc, length):
        header.malformed += 1
        return False
    if swap16(as_packet(rpc).job) != header.job:
        header.unexpected += 1
        return False
    return True


@compiled
def is_of_vector(state: VectorState, rpc: Rpc) -> bool:
    """Whether it is of the vectors that are being added up, and cut into chunks as this worker does."""
    header, packet = state.header, as_packet(rpc)
    return bool(
        swap32(packet.number) == header.number & ALL
        and packet.workers == header.workers
        and swap16(packet.full) == header.full
        and packet.form == header.is_float
    )


@compiled
def slot_of(state: VectorState, chunk: int) -> int:
    """The slot whose packet, which is on its way, is of that chunk; -1 where there is none."""
    for s in range(len(state.slots)):
        if state.slots[s].busy and state.slots[s].call == chunk:
            return s
    return -1


@compiled
def log_row(
    state: VectorState, slot: Slot, peer: int, length: int, count: int, arrival: int, read: int
) -> int:
    """Write the row of an answered packet but for `w_proc`; returns its number. There must be room."""
    r = int64(state.header.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = 0, 0, 0
    row.iteration, row.ps, row.op = state.header.iteration, peer, PUSH
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = min(count, _MOST_LANES), 0, slot.attempts
    state.header.rows += 1
    return r


@compiled
def has_stalled(state: VectorState, now: int) -> bool:
    """Give up after `header.patience` in which nothing has come."""
    header = state.header
    if header.pending and not header.stalled and header.progress and now - header.progress >= header.patience:
        header.stalled, header.stalled_at, header.due = 1, now, NEVER
    return bool(header.stalled)


@compiled
def wake(state: VectorState, now: int) -> None:
    """Send again what is overdue."""
    if now >= state.header.due and not has_stalled(state, now):
        retransmit(state, now)
        state.header.due = deadline(state)


@compiled
def deadline(state: VectorState) -> int:
    """When the first of what is on its way is overdue, or an operation has stalled, or NEVER."""
    header = state.header
    if header.stalled:
        return NEVER
    if not (header.pending and header.progress):
        return next_overdue(state)
    return min(next_overdue(state), int64(header.progress + header.patience))


@compiled
def take_next(state: VectorState, now: int) -> int:
    """Take a free slot, which there must be, for the next chunk, which becomes its `call`.

    With the first chunk of an operation its patience begins.
    """
    header = state.header
    s = take_slot(state, int64(header.unsent), now)
    header.unsent += 1
    if header.progress == 0:
        header.progress = max(now, 1)
        header.due = min(int64(header.due), int64(header.progress + header.patience))
    return s


@compiled
def encode(state: VectorState, s: int, first: int, count: int) -> None:
    """Write a slot's chunk, of `count` values from vector[first] on, into its datagram."""
    header, slot, rpc = state.header, state.slots[s], state.sent[s]
    write_head(
        rpc, ADDEND, int64(header.is_float), int64(header.job), int64(header.worker) - 1,
        int64(header.workers), int64(header.full), int64(header.number), int64(slot.call),
    )  # fmt: skip
    slot.length = write_words(rpc, state.vector, first, count)


@compiled
def finish(state: VectorState, s: int, peer: int, length: int, count: int, arrival: int, read: int) -> int:
    """Log that a slot's chunk of `count` values was answered, and free the slot; the row of the log.

    With the last answer the operation ends.
    """
    header, slot = state.header, state.slots[s]
    time_round_trip(state, slot, read)
    row = log_row(state, slot, peer, length, count, arrival, read)
    free_slot(state, slot)
    header.progress = read
    header.pending -= 1
    if header.pending == 0:
        end(state)
    return row
