"""What workers do while faults strike: random operations one after the other, and the history of them.

All is compiled, as a million schedules are played. What is pushed follows from seed, worker, operation and
key, so that the model knows it too; the history is Jepsen's: invocations and completions on one clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foundation.designs.interface import NEVER, WORKER_OPS
from foundation.protocol.rpc import ALL, PULL, PUSH
from hosts.worker.client import ClientState
from nativekit.compile import compiled, int64
from nativekit.records import Records, RecordTable, Words, one, records
from nativekit.reference import as_ref, row
from simulator.compile import entry_point
from simulator.loop import ASKED, IS_FULL, go_on_with, go_until
from simulator.state import World

start = WORKER_OPS.start
next_unreplayed, take_unreplayed = WORKER_OPS.next_unreplayed, WORKER_OPS.take_unreplayed

KEYS = 64
"""Parameters, a bit each of a mask."""
OPERATIONS = 256
"""Of a worker at most."""
EXTREMES = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.int64)
WAITING, RUNNING, REPLAYING = 0, 1, 2
"""Between two operations; in one; pushing again what a switch that is gone had acknowledged."""
ENOUGH, FULL = -1, -2
"""Why the loop has come back: so many RPCs have been answered; server `me.who` needs room."""


class Settings:
    """What workers do, and how far they are."""

    begin_ns: int
    think_ns: int
    until: int
    """RPCs that are answered when the loop ends."""
    answered: int
    rpcs: int
    is_closing: int
    is_extreme: int
    pulls: float
    """Probability that a step pulls."""
    share: float
    """Probability that a step takes a key."""
    random: np.uint64
    seed: np.uint64


class Line:
    """A worker's operations; times in ns."""

    state: int
    operations: int
    due: int
    completed: int


class Operation:
    """An operation; times in ns."""

    kind: int
    invoked: int
    completed: int
    """0 until it is."""
    mask: np.uint64
    """Its keys, a bit each."""
    added: np.uint64
    """Those of its keys whose push was acknowledged."""


class Operations(NamedTuple):
    """Of W workers."""

    me: Settings
    lines: Records[Line]
    """LINE[W]"""
    history: RecordTable[Operation]
    """OPERATION[W, OPERATIONS]"""
    pulled: Words
    """uint32[W, OPERATIONS, KEYS]: what pulls have brought."""


def make_operations(workers: int) -> Operations:
    """None as yet."""
    return Operations(
        one(Settings),
        records(workers, Line),
        records((workers, OPERATIONS), Operation),
        np.zeros((workers, OPERATIONS, KEYS), np.uint32),
    )


@compiled
def mixed(z: np.uint64) -> np.uint64:
    """A hash of 64 bits (splitmix64's)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def delta_of(me: Settings, w: int, k: int, key: int) -> int:
    """What operation `k` of worker `w` pushes to a key."""
    at = np.uint64((w * OPERATIONS + k) * KEYS + key + 1)
    h = mixed(me.seed + at * np.uint64(0x9E3779B97F4A7C15))
    chosen = int64(h >> np.uint64(40))
    if not me.is_extreme:
        return 1 + chosen % 1000
    return int64(EXTREMES[chosen % len(EXTREMES)]) if chosen & 0x10000 else int64(h) & ALL


@compiled
def _draw(me: Settings) -> float:
    me.random += np.uint64(0x9E3779B97F4A7C15)
    return float(mixed(me.random) >> np.uint64(11)) * 2.0**-53


@entry_point
def play(world: World, operations: Operations, until: int) -> int:
    """Let everything happen before a time, until Python is needed, or ENOUGH RPCs are answered."""
    world, operations = as_ref(world), as_ref(operations)
    me = operations.me
    while True:
        reason = go_until(world, until)
        who = int64(world.me.who)
        if reason == IS_FULL:
            if who >= world.me.workers:
                return FULL
            _count(world, operations, who)
        elif reason == ASKED:
            _count(world, operations, who)
            _go_on(world, operations, who)
            if me.answered >= me.until:
                return ENOUGH
        else:
            return reason


@compiled
def _count(world: World, operations: Operations, w: int) -> None:
    """Empty the log of worker `w`."""
    calls = world.calls.header[w]
    operations.me.answered += calls.rows
    calls.rows = 0


@compiled
def _go_on(world: World, operations: Operations, w: int) -> None:
    """Worker `w` is asked what to do."""
    me, line, calls = operations.me, operations.lines[w], row(world.calls, w)
    now = int64(world.me.now)
    if calls.header.pending == 0 and line.state != WAITING:
        if line.state == RUNNING:
            _complete(operations, w, calls, now)
        line.state = WAITING
        line.due = now + int64(_draw(me) * me.think_ns)
    at, until = now, int64(NEVER)
    if calls.header.pending == 0:
        if calls.header.unreplayed:
            n = next_unreplayed(calls)
            take_unreplayed(calls, n)
            line.state = REPLAYING
            if n:
                _start(calls, PUSH, 0, n)
                at = now + int64(me.begin_ns)
            else:
                line.state, until = WAITING, now
        elif not (me.is_closing or line.operations == OPERATIONS):
            until = int64(line.due)
            if until <= now:
                _invoke(operations, w, calls, now)
                at = now + int64(me.begin_ns)
    go_on_with(world, w, at, max(until, at))


@compiled
def _invoke(operations: Operations, w: int, calls: ClientState, now: int) -> None:
    """Begin the next operation of worker `w`."""
    me, line = operations.me, operations.lines[w]
    k, n, mask = int64(line.operations), int64(0), np.uint64(0)
    kind = PULL if _draw(me) < me.pulls else PUSH
    for key in range(KEYS):
        if _draw(me) < me.share or (key == KEYS - 1 and n == 0):
            calls.positions[n] = key
            calls.deltas[n] = delta_of(me, w, k, key)
            mask |= np.uint64(1) << np.uint64(key)
            n += 1
    operation = operations.history[w, k]
    operation.kind, operation.invoked, operation.mask = kind, now, mask
    operation.completed, operation.added = 0, np.uint64(0)
    line.operations += 1
    line.state = RUNNING
    _start(calls, kind, k + 1, n)


@compiled
def _start(calls: ClientState, kind: int, iteration: int, n: int) -> None:
    for i in range(n):
        calls.answered[i] = False
    start(calls, kind, iteration, n)


@compiled
def _complete(operations: Operations, w: int, calls: ClientState, now: int) -> None:
    """The operation of worker `w` has ended."""
    line = operations.lines[w]
    k = int64(line.operations) - 1
    operations.history[w, k].completed = now
    line.completed += 1
    _note(operations, w, k, calls)


@compiled
def _note(operations: Operations, w: int, k: int, calls: ClientState) -> None:
    """What of an operation has been answered so far."""
    operation, added = operations.history[w, k], np.uint64(0)
    for i in range(int64(calls.header.n_keys)):
        key = int64(calls.positions[i])
        if operation.kind == PULL:
            operations.pulled[w, k, key] = calls.values[i]
        elif calls.answered[i]:
            added |= np.uint64(1) << np.uint64(key)
    operation.added = added


@entry_point
def give_up(world: World, operations: Operations, w: int) -> None:
    """Worker `w` is killed: what it has been answered counts."""
    world, operations = as_ref(world), as_ref(operations)
    _count(world, operations, w)
    line = operations.lines[w]
    if line.state == RUNNING:
        _note(operations, w, int64(line.operations) - 1, row(world.calls, w))
    line.state = WAITING
