"""A worker sends numbers, four at a time, until each has returned, and sometimes greets the next worker."""

from __future__ import annotations

from typing import Any, NamedTuple

from foundation.logs.rpc_row import ROW
from foundation.protocol.rpc import Rpc, rpcs
from hotline_agents.interface import NEVER, NOTHING, WorkerOps, register_worker_ops
from nativekit.compile import compiled, int64
from nativekit.records import record, records

OCTETS, TIMEOUT, WINDOW = 8, 10_000_000, 4
ASKED, ANSWER, EXTRA, GREETING = 0, 1, 2, 3
ME = record(
    "worker", "n_ps", "workers", "op", "pending", "due", "rows", "unreplayed", "next", "greets", "extras",
    "greetings",
)  # fmt: skip
SLOT = record("number", "deadline")


class Numbers(NamedTuple):
    header: Any
    slots: Any
    sent: Any
    log: Any


def make_numbers(worker: int, n_ps: int, workers: int) -> Numbers:
    state = Numbers(records(1, ME)[0], records(WINDOW, SLOT), rpcs(WINDOW + 1), records(64, ROW))
    state.header.worker, state.header.n_ps, state.header.workers, state.header.due = (
        worker,
        n_ps,
        workers,
        NEVER,
    )
    state.slots.number = NOTHING
    return state


@compiled
def start(state: Numbers, op: int, iteration: int, n: int) -> None:
    state.header.op, state.header.pending, state.header.next = op, n, 0


@compiled
def transmit(state: Numbers, now: int) -> int:
    """Return the slot of an overdue or new number, or of an unsent greeting."""
    header = state.header
    unsent = int64(header.pending) - _on_way(state)
    if header.greets:
        header.greets, state.sent[WINDOW].head[1] = 0, GREETING
        return WINDOW
    for s in range(WINDOW):
        slot, head = state.slots[s], state.sent[s].head
        if slot.number == NOTHING and unsent > 0:
            slot.number, header.greets = header.next, header.next % 7 == 6
            header.next += 1
        elif slot.number == NOTHING or slot.deadline > now:
            continue
        slot.deadline = now + TIMEOUT
        header.due = min(int64(header.due), int64(slot.deadline))
        head[0], head[1] = slot.number, ASKED
        return s
    return NOTHING


@compiled
def _on_way(state: Numbers) -> int:
    n = 0
    for s in range(WINDOW):
        n += state.slots[s].number != NOTHING
    return n


@compiled
def octets(_state: Numbers, _slot: int) -> int:
    return OCTETS


@compiled
def peer(state: Numbers, s: int) -> int:
    """Return the server of a number, or the next worker of a greeting."""
    header = state.header
    if s == WINDOW:
        return int64(header.n_ps + header.worker % header.workers)
    return int64(state.slots[s].number % header.n_ps)


@compiled
def wake(state: Numbers, now: int) -> None:
    state.header.due = deadline(state)


@compiled
def deadline(state: Numbers) -> int:
    due = NEVER
    for s in range(WINDOW):
        if state.slots[s].number != NOTHING:
            due = min(due, int64(state.slots[s].deadline))
    return due


@compiled
def receive(state: Numbers, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    """Take an answer, a number that was not asked for, or a greeting."""
    header, kind = state.header, int64(rpc.head[1])
    if length == OCTETS:
        header.extras += kind == EXTRA
        header.greetings += kind == GREETING
        for s in range(WINDOW):
            if kind == ANSWER and state.slots[s].number == int64(rpc.head[0]):
                state.slots[s].number = NOTHING
                header.pending -= 1
    return NOTHING


WORKER = register_worker_ops(
    Numbers,
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
