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
    """What every state with a window has in `header`; times in ns."""

    job: int
    worker: int
    epoch: int
    window: int
    """Slots in use."""
    issued: int
    free: int
    """Slots in the array of this name."""
    resends: int
    """Where the ring of this name begins."""
    queued_resends: int
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
    unreplayed: int


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
    def header(self) -> WindowHeader:
        """The record of numbers."""

    @property
    def slots(self) -> Records[Slot]:
        """Slot[WINDOW]"""

    @property
    def sent(self) -> Records[Rpc]:
        """Rpc[WINDOW or more]: each slot's datagram, as long as it may be sent again."""

    @property
    def free(self) -> Ints:
        """int64[WINDOW]: next sequence numbers of the header.free free slots, the next to be used last."""

    @property
    def resends(self) -> Ints:
        """int64[WINDOW]: slots to be sent again, a ring of header.queued_resends from header.resends on."""

    @property
    def log(self) -> Records[Row]:
        """Row[n]: answered RPCs, the first header.rows."""


def open_window(header: WindowHeader, caller: Caller, window: int) -> Ints:
    """Begin with `window` free slots; returns `free`. Raises `ValueError` for a window that cannot be."""
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window is {window}, not 1..{WINDOW}")
    header.job, header.worker, header.epoch = caller
    header.window = header.free = window
    header.timeout, header.due = 5 * MINIMUM, NEVER
    free = np.zeros(WINDOW, np.int64)
    free[:window] = WINDOW + np.arange(window)[::-1]
    return free


@compiled
def next_resend(state: WindowState) -> int:
    """The slot that has waited longest to be sent again, or NOTHING."""
    header = state.header
    while header.queued_resends:
        s = int64(state.resends[header.resends])
        header.resends = (header.resends + 1) % WINDOW
        header.queued_resends -= 1
        state.slots[s].queued = 0
        if state.slots[s].busy:  # else the answer has come meanwhile
            return s
    return NOTHING


@compiled
def take_slot(state: WindowState, call: int, now: int) -> int:
    """A free slot for call number `call`, which leaves now; there must be one."""
    header = state.header
    header.free -= 1
    seq = int64(state.free[header.free])
    s = seq & SLOT_MASK
    slot = state.slots[s]
    slot.busy, slot.seq, slot.call, slot.attempts = 1, seq, call, 1
    slot.t0 = slot.sent = now
    slot.number = header.issued
    header.issued += 1
    slot.deadline = now + header.timeout
    header.due = min(int64(header.due), int64(slot.deadline))
    return s


@compiled
def octets(state: WindowState, s: int) -> int:
    """Return the length of a slot's datagram."""
    return int64(state.slots[s].length)


@compiled
def free_slot(state: WindowState, slot: Slot) -> None:
    """Free a slot for its next turn."""
    header = state.header
    slot.busy = 0
    state.free[header.free] = slot.seq + WINDOW
    header.free += 1


@compiled
def retransmit(state: WindowState, now: int) -> None:
    """Queue what is overdue, as it was, in the order in which it was first sent."""
    header, waiting = state.header, int64(state.header.queued_resends)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            expired(header, int64(slot.sent), now)
            slot.sent = now
            slot.attempts += 1
            header.retransmissions += 1
            if not slot.queued:
                _queue_resend(state, s, waiting)
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + header.timeout


@compiled
def _queue_resend(state: WindowState, s: int, waiting: int) -> None:
    """Insert a slot by its number, behind the `waiting` ones."""
    header = state.header
    k = int64(header.queued_resends)
    while k > waiting:
        before = int64(state.resends[(header.resends + k - 1) % WINDOW])
        if state.slots[before].number < state.slots[s].number:
            break
        state.resends[(header.resends + k) % WINDOW] = before
        k -= 1
    state.resends[(header.resends + k) % WINDOW] = s
    header.queued_resends += 1
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
        sample(state.header, read - slot.t0)


@compiled
def log_answer(state: WindowState, slot: Slot, h: Header, length: int, arrival: int, read: int) -> int:
    """Write the row of an answered RPC but for `w_proc`; returns its number. There must be room."""
    header = state.header
    r = int64(header.rows)
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = h.ps_proc, h.ps_queue, h.residence
    row.iteration, row.ps, row.op = h.iteration, h.ps, h.op
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = popcount(h.live), popcount(h.served), slot.attempts
    header.rows += 1
    return r
