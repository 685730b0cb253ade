"""A worker's RPCs on their way: numbered slots, what is sent again, which answer is whose, and its row of the
log.

For designs that speak our RPC (`foundation.protocol.rpc`). A state has `me` with the fields of `ME`,
`slots`, `free`, `again`, `sent` and `log`. A slot is used again only after its RPC
has been answered, so that receivers need to remember one turn a slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NEVER, NOTHING
from foundation.protocol.header import RESPONSE, SLOT_MASK, WINDOW, Header
from foundation.protocol.rpc import Rpc
from hosts.worker.timer import MINIMUM, expired, sample
from nativekit.bits import popcount
from nativekit.compile import compiled, int64
from nativekit.records import record

ME = (
    "job", "worker", "epoch", "window", "issued", "free", "again", "queued_again",
    "backed_off_at", "timeout", "due", ("smoothed", np.float64), ("variation", np.float64),
    "rows", "malformed", "unexpected", "retransmissions", "owes",
)  # fmt: skip
"""Fields of `me`: `free` and `queued_again` count what is in the arrays of these names, `again` is where it
begins."""
SLOT = record(
    "seq", "number", "call", "t0", "sent", "deadline",
    ("busy", np.int32), ("queued", np.int32), ("length", np.int32), ("attempts", np.int32),
)  # fmt: skip
"""One of the window, a line of the caches. Times in ns; `number` counts what has been issued; `queued` waits
to be sent again."""


def open_window(me: Any, job: int, worker: int, epoch: int, window: int) -> NDArray[np.int64]:
    """Begin with `window` free slots; returns `free`. Raises `ValueError` for a window that cannot be."""
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window is {window}, not 1..{WINDOW}")
    me.job, me.worker, me.epoch, me.window, me.free = job, worker, epoch, window, window
    me.timeout, me.due = 5 * MINIMUM, NEVER
    free = np.zeros(WINDOW, np.int64)
    free[:window] = WINDOW + np.arange(window)[::-1]
    return free


@compiled
def next_again(state: Any) -> int:
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
def take_slot(state: Any, call: int, now: int) -> int:
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
def free_slot(state: Any, slot: Any) -> None:
    """Free a slot for its next turn."""
    me = state.me
    slot.busy = 0
    state.free[me.free] = slot.seq + WINDOW
    me.free += 1


@compiled
def retransmit(state: Any, now: int) -> None:
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
def _queue_again(state: Any, s: int, waiting: int) -> None:
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
def next_overdue(state: Any) -> int:
    """When the first of what is on its way is overdue, or NEVER."""
    due = int64(NEVER)
    for s in range(WINDOW):
        if state.slots[s].busy:
            due = min(due, int64(state.slots[s].deadline))
    return due


@compiled
def is_answered(state: Any, rpc: Rpc, h: Header) -> bool:
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
def time_round_trip(state: Any, slot: Any, read: int) -> None:
    """Learn how long answers take, from what was sent once (Karn's rule)."""
    if slot.attempts == 1:
        sample(state.me, read - slot.t0)


@compiled
def log_answer(state: Any, slot: Any, h: Header, length: int, arrival: int, read: int) -> int:
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
