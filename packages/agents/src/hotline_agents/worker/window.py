"""A worker's window of outstanding RPCs: slots, retransmission, matching of answers, and their log.

The retransmission timeout is that of RFC 6298, §2. By Karn's rule, only RPCs that were sent once are timed.

The wire has 26 bits for the turn of a slot, and switch and servers accept no turn twice in an epoch. So a
slot that has had its last turn is free no more, and its window continues with the others. A caller begins no
operation when few of the 2^32 sequence numbers are left (`RESERVED_NUMBERS`): it needs a new epoch.
"""

from __future__ import annotations

from typing import Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import MAX_U32, Caller
from foundation.protocol.header import PS_MASK, RESPONSE, SLOT_MASK, WINDOW, WINDOW_BITS, Header
from foundation.protocol.rpc import Rpc, rpcs
from hotline_agents.interface import NEVER, NOTHING
from nativekit.bits import popcount
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release
from nativekit.records import Int32, Ints, Records, Words, dtype_of, records

NS_PER_MS = 1_000_000
MIN_TIMEOUT_NS, MAX_TIMEOUT_NS = 20 * NS_PER_MS, 1000 * NS_PER_MS
"""Bounds of the timeout. The minimum covers a descheduled process; RFC 6298 has a minimum of 1 s."""
MAX_TURN = MAX_U32 >> WINDOW_BITS
"""Last turn of a slot; the first is 1."""
LAST_SEQ = MAX_U32 - WINDOW
"""Last sequence number after which a slot has another turn."""
RESERVED_NUMBERS = 1 << 22
"""Sequence numbers that are left for the operation that has begun: more than any operation takes."""
INITIAL_TIMEOUT_NS = 5 * MIN_TIMEOUT_NS  # before the first sample
_ROWS = 1024  # initial size of the log


class WindowHeader:
    """The header of a state with a window; times in ns."""

    job: int
    worker: int
    epoch: int
    window: int  # number of slots in use
    n_issued: int  # number of RPCs issued so far
    issue_limit: int  # value of `n_issued` from which on no operation may begin
    n_free: int  # number of entries in the array `free`
    first_resend: int  # index of the first slot in the ring `resends`
    queued_resends: int  # number of slots in that ring
    backed_off_at: int  # time of the last back-off
    timeout: int  # retransmission timeout
    due: int  # time of the next `wake`
    srtt: float  # SRTT of RFC 6298; 0 before the first sample
    rttvar: float  # RTTVAR of RFC 6298
    rows: int  # number of rows in the log
    malformed: int
    unexpected: int
    retransmissions: int
    unreplayed: int  # 1 + the first position that may have unreplayed updates, or 0 for none


class Slot:
    """A slot of the window, in one cache line; times in ns."""

    seq: int
    issue_index: int  # number of RPCs issued before this RPC
    call: int  # index of the RPC in the operation
    t0: int  # time of the first transmission
    last_sent: int  # time of the last transmission
    deadline: int  # time at which the RPC is to be retransmitted
    busy: Int32  # whether its RPC is outstanding
    queued: Int32  # whether it is in the ring of retransmissions
    length: Int32  # of the request, in bytes
    attempts: Int32  # number of transmissions


SLOT = dtype_of(Slot)


class WindowState(Protocol):
    @property
    def header(self) -> WindowHeader: ...

    @property
    def slots(self) -> Records[Slot]: ...

    @property
    def sent(self) -> Records[Rpc]:
        """Rpc[WINDOW or more]: each slot's datagram, for retransmission."""

    @property
    def free(self) -> Ints:
        """int64[WINDOW]: a stack of the next sequence numbers of free slots, header.n_free long."""

    @property
    def resends(self) -> Ints:
        """int64[WINDOW]: slots to retransmit, a ring of header.queued_resends from header.first_resend on."""

    @property
    def log(self) -> Records[RpcRow]:
        """Row[n]: answered RPCs, the first header.rows."""


class RequestState(WindowState, Protocol):
    """A state whose requests a worker that takes the rank of a killed one can send again."""

    @property
    def in_flight(self) -> Ints:
        """int64[WINDOW + 1]: bytes of each slot's request until its answer, then 0 (`hosts.in_flight`)."""


def open_window(header: WindowHeader, caller: Caller, window: int) -> Ints:
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window: expected 1 to {WINDOW}, got {window}")
    header.job, header.worker, header.epoch = caller
    header.window = header.n_free = window
    header.timeout, header.due = INITIAL_TIMEOUT_NS, NEVER
    free = np.zeros(WINDOW, np.int64)
    # A slot's sequence numbers are slot + turn * WINDOW. Turn 1 is first, and slot 0 is on top of the stack.
    free[:window] = WINDOW + np.arange(window)[::-1]
    header.issue_limit = window * MAX_TURN - RESERVED_NUMBERS
    return free


@compiled
def next_resend(state: WindowState) -> int:
    """Dequeue and return the slot that has waited longest to be retransmitted, or NOTHING."""
    header = state.header
    while header.queued_resends:
        s = int64(state.resends[header.first_resend])
        header.first_resend = (header.first_resend + 1) % WINDOW
        header.queued_resends -= 1
        state.slots[s].queued = 0
        if state.slots[s].busy:  # otherwise its RPC was answered in the meantime
            return s
    return NOTHING


@compiled
def take_slot(state: WindowState, call: int, now: int) -> int:
    """Take a free slot, which must exist, for call number `call`, sent now; return its index."""
    state.header.n_free -= 1
    return occupy_slot(state, int64(state.free[state.header.n_free]), call, now)


@compiled
def occupy_slot(state: WindowState, seq: int, call: int, now: int) -> int:
    """Use the slot of a sequence number for call number `call`, sent now; return its index."""
    header, s = state.header, seq & SLOT_MASK
    slot = state.slots[s]
    slot.busy, slot.seq, slot.call, slot.attempts = 1, seq, call, 1
    slot.t0 = slot.last_sent = now
    slot.issue_index = header.n_issued
    header.n_issued += 1
    slot.deadline = now + header.timeout
    header.due = min(header.due, int64(slot.deadline))
    return s


@compiled
def octets(state: WindowState, s: int) -> int:
    return int64(state.slots[s].length)


@compiled
def mark_in_flight(state: RequestState, s: int) -> None:
    """Mark the request of a slot, which is complete, as one that may be sent from now on."""
    store_item_release(state.in_flight, s, int64(state.slots[s].length))


@compiled
def free_slot(state: RequestState, slot: Slot) -> None:
    """Free a slot, whose answer has been noted, for its next turn, if the wire has a number for that."""
    vacate_slot(state, slot)
    if slot.seq <= LAST_SEQ:
        push_free(state, slot.seq + WINDOW)


@compiled
def vacate_slot(state: RequestState, slot: Slot) -> None:
    """Mark a slot as one without a request, as its answer has been noted."""
    store_item_release(state.in_flight, slot.seq & SLOT_MASK, 0)
    slot.busy = 0


@compiled
def push_free(state: WindowState, seq: int) -> None:
    state.free[state.header.n_free] = seq
    state.header.n_free += 1


@compiled
def retransmit(state: WindowState, now: int) -> None:
    """Queue overdue datagrams for retransmission in the order in which they were first sent."""
    header, n_waiting = state.header, state.header.queued_resends
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            back_off(header, slot.last_sent, now)
            slot.last_sent = now
            slot.attempts += 1
            header.retransmissions += 1
            if not slot.queued:
                queue_resend(state, s, n_waiting)
    # Deadlines follow once all back-offs have doubled the timeout; until then they mark the overdue slots.
    for s in range(WINDOW):
        slot = state.slots[s]
        if slot.busy and slot.deadline <= now:
            slot.deadline = now + header.timeout


@compiled
def queue_resend(state: WindowState, s: int, n_waiting: int) -> None:
    # Insert in the order of first transmissions, behind the `n_waiting` slots that are in the ring already.
    header = state.header
    k = header.queued_resends
    while k > n_waiting:
        previous_slot = int64(state.resends[(header.first_resend + k - 1) % WINDOW])
        if state.slots[previous_slot].issue_index < state.slots[s].issue_index:
            break
        state.resends[(header.first_resend + k) % WINDOW] = previous_slot
        k -= 1
    state.resends[(header.first_resend + k) % WINDOW] = s
    header.queued_resends += 1
    state.slots[s].queued = 1


@compiled
def back_off(header: WindowHeader, sent: int, now: int) -> None:
    """Double the timeout after an RPC sent at `sent` timed out, once for all RPCs in flight together."""
    if sent >= header.backed_off_at:
        header.backed_off_at = now
        header.timeout = min(2 * header.timeout, MAX_TIMEOUT_NS)


@compiled
def earliest_deadline(state: WindowState) -> int:
    earliest = NEVER
    for s in range(WINDOW):
        if state.slots[s].busy:
            earliest = min(earliest, state.slots[s].deadline)
    return earliest


@compiled
def is_answered(state: WindowState, rpc: Rpc, h: Header) -> bool:
    """Return whether a well-formed RPC answers its slot's request, whose fields it must echo."""
    s = h.seq & SLOT_MASK
    slot, sent = state.slots[s], state.sent[s]
    return bool(
        slot.busy and slot.seq == h.seq and h.flags & RESPONSE
        and rpc.op == sent.op and rpc.job == sent.job and rpc.worker == sent.worker
        and rpc.epoch == sent.epoch and rpc.ps == sent.ps and rpc.count == sent.count
        and rpc.dim == sent.dim and rpc.seq == sent.seq and rpc.live == sent.live
        and rpc.iteration == sent.iteration and rpc.t0 == sent.t0
    )  # fmt: skip


@compiled
def time_round_trip(state: WindowState, slot: Slot, read: int) -> None:
    """Update the timeout by the round trip of an RPC that was sent once; this ends a back-off."""
    if slot.attempts != 1:
        return
    header, round_trip = state.header, read - slot.t0
    if header.srtt != 0:
        header.rttvar += (abs(header.srtt - round_trip) - header.rttvar) / 4
        header.srtt += (round_trip - header.srtt) / 8
    else:
        header.srtt = round_trip
        header.rttvar = round_trip / 2
    header.timeout = min(max(int64(header.srtt + 4 * header.rttvar), MIN_TIMEOUT_NS), MAX_TIMEOUT_NS)


@compiled
def log_answer(state: WindowState, slot: Slot, h: Header, length: int, arrival: int, read: int) -> int:
    """Write the log row of an answered RPC except `w_proc`; return its index. There must be room."""
    header = state.header
    r = header.rows
    row = state.log[r]
    row.t0, row.arrival, row.w_queue = slot.t0, arrival, read - arrival
    row.ps_proc, row.ps_queue, row.residence_us = h.ps_proc, h.ps_queue, h.residence
    row.iteration, row.ps, row.op = h.iteration, h.ps & PS_MASK, h.op
    row.request_bytes, row.response_bytes = slot.length, length
    row.lanes, row.served, row.attempts = popcount(h.live), popcount(h.served), slot.attempts
    header.rows += 1
    return r


class OperandState(Protocol):
    """The operands of an operation; B is its maximum number of keys, V of their values."""

    @property
    def positions(self) -> Ints:
        """int64[B]: positions of the keys in the key space."""

    @property
    def deltas(self) -> Words:
        """uint32[V]: the deltas of a push, row by row."""

    @property
    def values(self) -> Words:
        """uint32[V]: the values of a pull, row by row."""

    @property
    def answered(self) -> NDArray[np.bool_]:
        """bool[>= B]: which rows are known to be applied; the caller of a push passes the array."""


class CallArrays(TypedDict):
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    log: Records[RpcRow]


def open_calls(
    header: WindowHeader, caller: Caller, max_keys: int, window: int, more_datagrams: int = 0, dim: int = 1
) -> CallArrays:
    """Return an idle worker's arrays, and fill in `header`; `more_datagrams` buffers follow the slots.

    `dim` is the largest number of values of a row.
    """
    return {
        "slots": records(WINDOW, Slot),
        "sent": rpcs(WINDOW + more_datagrams),
        "free": open_window(header, caller, window),
        "resends": np.zeros(WINDOW, np.int64),
        "positions": np.zeros(max_keys, np.int64),
        "deltas": np.zeros(max_keys * dim, np.uint32),
        "values": np.zeros(max_keys * dim, np.uint32),
        "answered": np.zeros(max_keys, np.bool_),
        "log": records(_ROWS, RpcRow),
    }
