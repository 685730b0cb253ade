"""A worker's RPCs on their way: numbered slots, what is sent again, which answer is whose, and its row of the
log.

A slot is used again only after its RPC has been answered, so that receivers need to remember one turn a
slot."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from foundation.designs.interface import NEVER, NOTHING
from foundation.logs.columns import Row
from foundation.protocol.codec import Caller
from foundation.protocol.header import RESPONSE, SLOT_MASK, WINDOW, Header
from foundation.protocol.rpc import Rpc
from hosts.worker.timer import MINIMUM, expired, sample
from nativekit.bits import popcount
from nativekit.compile import compiled, int64
from nativekit.records import Int32, Ints, Records, dtype_of


class WindowHeader:
    """What every state with a window has in `me`; times in ns."""

    job: int
    worker: int
    epoch: int
    window: int
    """Slots in use."""
    issued: int
    free: int
    """Slots in the array of this name."""
    again: int
    """Where the ring of this name begins."""
    queued_again: int
    """Slots in that ring."""
    backed_off_at: int
    timeout: int
    due: int
    smoothed: float
    variation: float
    rows: int
    malformed: int
    unexpected: int
    retransmissions: int
    owes: int


class Slot:
    """A slot of the window, a line of the caches; times in ns."""

    seq: int
    number: int
    """How many RPCs had been issued before."""
    call: int
    t0: int
    sent: int
    deadline: int
    busy: Int32
    queued: Int32
    """Whether it waits to be sent again."""
    length: Int32
    attempts: Int32


SLOT = dtype_of(Slot)


class WindowState(Protocol):
    """What these functions work on."""

    @property
    def me(self) -> WindowHeader:
        """The record of numbers."""

    @property
    def slots(self) -> Records[Slot]:
        """Slot[WINDOW]"""

    @property
    def sent(self) -> Records[Rpc]:
        """Rpc[WINDOW or more]: each slot's datagram, as long as it may be sent again."""

    @property
    def free(self) -> Ints:
        """int64[WINDOW]: next sequence numbers of the me.free free slots, the next to be used last."""

    @property
    def again(self) -> Ints:
        """int64[WINDOW]: slots to be sent again, a ring of me.queued_again from me.again on."""

    @property
    def log(self) -> Records[Row]:
        """Row[n]: answered RPCs, the first me.rows."""


def open_window(me: WindowHeader, caller: Caller, window: int) -> Ints:
    """Begin with `window` free slots; returns `free`. Raises `ValueError` for a window that cannot be."""
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window is {window}, not 1..{WINDOW}")
    me.job, me.worker, me.epoch = caller
    me.window = me.free = window
    me.timeout, me.due = 5 * MINIMUM, NEVER
    free = np.zeros(WINDOW, np.int64)
    free[:window] = WINDOW + np.arange(window)[::-1]
    return free


@compiled
def next_again(state: WindowState) -> int:
    """The slot that has waited longest to be sent again, or NOTHING."""
    me = state.me
    while me.queued_again:
        s = int64(state.again[me.again])
        me.again = (me.again + 1) % WINDOW
        me.queued_again -= 1
        state.slots[s].queued = 0
        if state.slots[s].busy:  # else the answer has come meanwhile
            return s
    return NOTHING


@compiled
def take_slot(state: WindowState, call: int, now: int) -> int:
    """A free slot for call number `call`, which leaves now; there must be one."""
    me = state.me
    me.free -= 1
    seq = int64(state.free[me.free])
    s = seq & SLOT_MASK
    slot = state.slots[s]
    slot.busy, slot.seq, slot.call, slot.attempts = 1, seq, call, 1
    slot.t0 = slot.sent = now
    slot.number = me.issued
    me.issued += 1
    slot.deadline = now + me.timeout
    me.due = min(int64(me.due), int64(slot.deadline))
    return s


@compiled
def octets(state: WindowState, s: int) -> int:
    """Return the length of a slot's datagram."""
    return int64(state.slots[s].length)


@compiled
def free_slot(state: WindowState, slot: Slot) -> None:
    """Free a slot for its next turn."""
    me = state.me
    slot.busy = 0
    state.free[me.free] = slot.seq + WINDOW
    me.free += 1


@compiled
def retransmit(state: WindowState, now: int) -> None:
    """Queue what is overdue, as it was, in the order in which it was first sent."""
    me, waiting = state.me, int64(state.me.queued_again)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            expired(me, int64(slot.sent), now)
            slot.sent = now
            slot.attempts += 1
            me.retransmissions += 1
            if not slot.queued:
                _queue_again(state, s, waiting)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + me.timeout


@compiled
def _queue_again(state: WindowState, s: int, waiting: int) -> None:
    """Insert a slot by its number, behind the `waiting` ones."""
    me = state.me
    k = int64(me.queued_again)
    while k > waiting:
        before = int64(state.again[(me.again + k - 1) % WINDOW])
        if state.slots[before].number < state.slots[s].number:
            break
        state.again[(me.again + k) % WINDOW] = before
        k -= 1
    state.again[(me.again + k) % WINDOW] = s
    me.queued_again += 1
    state.slots[s].queued = 1


@compiled
def next_overdue(state: WindowState) -> int:
    """When the first of what is on its way is overdue, or NEVER."""
    due = int64(NEVER)
    for s in range(WINDOW):
        if state.slots[s].busy:
            due = min(due, int64(state.slots[s].deadline))
    return due


@compiled
def is_answered(state: WindowState, rpc: Rpc, h: Header) -> bool:
    """Whether an RPC, well-formed, answers what its slot has on its way: it echoes what it must."""
    s = h.seq & SLOT_MASK
    slot, sent = state.slots[s], state.sent[s]
    return bool(
        slot.busy and slot.seq == h.seq and h.flags & RESPONSE
        and rpc.op == sent.op and rpc.job == sent.job and rpc.worker == sent.worker
        and rpc.epoch == sent.epoch and rpc.ps == sent.ps and rpc.count == sent.count
        and rpc.seq == sent.seq and rpc.live == sent.live
        and rpc.iteration == sent.iteration and rpc.t0 == sent.t0
    )  # fmt: skip


@compiled
def time_round_trip(state: WindowState, slot: Slot, read: int) -> None:
    """Learn how long answers take, from what was sent once (Karn's rule)."""
    if slot.attempts == 1:
        sample(state.me, read - slot.t0)


@compiled
def log_answer(state: WindowState, slot: Slot, h: Header, length: int, arrival: int, read: int) -> int:
    """Write the row of an answered RPC but for `w_proc`; returns its number. There must be room."""
    me = state.me
    r = int64(me.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = h.ps_proc, h.ps_queue, h.residence
    row.iteration, row.ps, row.op = h.iteration, h.ps, h.op
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = popcount(h.live), popcount(h.served), slot.attempts
    me.rows += 1
    return r
