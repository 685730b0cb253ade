"""Workers' operations under faults: random pulls and pushes, one after the other, and their history.

All of it is compiled, because a million schedules are played. Pushed values follow from seed, worker,
operation and key, so that the model can compute them; the history is Jepsen's: invocations and
completions on one clock.

A push adds to the values of a row 1, 2, 3, ... times what it adds to the first. So these are the multiples of
the first value in every sum of pushes, modulo 2^32, and a row whose values are not is torn: some of them have
a push that others lack. The history and the model have the first value of each row.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from foundation.designs.combination import MIN_CODE
from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import Op
from foundation.protocol.rpc import PULL, PUSH
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER, WORKER_OPS
from hotline_agents.worker.client import ClientState
from hotline_simulator.loop import DRIVER_DUE, LOG_FULL, resume_worker, run_until_needed
from hotline_simulator.state import World, entry_point
from nativekit.compile import compiled, int64
from nativekit.plain import plain
from nativekit.records import Ints, Records, RecordTable, Words, one_record, records
from nativekit.reference import as_ref, row
from softswitch.network.chance import mix64, next_random

start = WORKER_OPS.start
next_unreplayed, take_unreplayed = WORKER_OPS.next_unreplayed, WORKER_OPS.take_unreplayed

KEYS = 64
"""Number of parameters; each has a bit in a mask."""
OPERATIONS = 256  # maximum number of operations of a worker
EXTREMES = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.int64)
IDLE, IN_OPERATION, REPLAYING = 0, 1, 2
"""State of a worker: between operations; in an operation; replaying updates acknowledged by a lost switch."""
RPCS_REACHED, SERVER_LOG_FULL = -1, -2
"""Further reasons why the loop ends: `rpc_target` RPCs are answered; the log of server `agent` is full."""
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MAX_ORDINARY_DELTA = 1000  # small enough that the sums of all pushes do not wrap
_COIN_FLIP = 0x10000  # a bit of the hash
_REPLAY_ITERATION = 0


class OperationsHeader:
    begin_ns: int  # CPU time before the first RPC of an operation
    think_ns: int  # maximum pause between two operations of a worker
    rpc_target: int  # number of answered RPCs at which the loop returns
    answered: int  # number of answered RPCs
    is_closing: int  # whether no operation begins any more
    combination: int  # code of the `Combination` of the design
    is_extreme: int  # whether pushed values are those of `EXTREMES`
    torn: int  # number of pulled rows that were torn
    pull_probability: float  # probability that an operation is a pull
    key_probability: float  # probability that an operation includes a given key
    random: np.uint64
    seed: np.uint64


class WorkerProgress:
    state: int
    operations: int  # number of invoked operations
    due: int  # when the next operation begins, ns
    completed: int  # number of completed operations


class WorkerOperation:
    """An operation of a worker; times in ns. `completed` is 0 if the operation has not completed."""

    kind: int
    invoked: int
    completed: int
    mask: np.uint64  # keys of the operation, a bit each
    added: np.uint64  # keys whose push was acknowledged, a bit each


class WorkerOperations(NamedTuple):
    header: OperationsHeader
    progress: Records[WorkerProgress]
    history: RecordTable[WorkerOperation]
    pulled: Words  # uint32[W, OPERATIONS, KEYS]: first values of pulled rows
    dims: Ints  # int64[KEYS]: number of values of each key's row


def make_operations(workers: int, space: KeySpace | None = None) -> WorkerOperations:
    """Return the operations of workers on the rows of a space of `KEYS` keys, or on rows of one value."""
    space = space or KeySpace(KEYS)
    return WorkerOperations(
        one_record(OperationsHeader),
        records(workers, WorkerProgress),
        records((workers, OPERATIONS), WorkerOperation),
        np.zeros((workers, OPERATIONS, KEYS), np.uint32),
        space.dims_at(np.arange(KEYS)),
    )


@compiled
def delta_of(header: OperationsHeader, w: int, k: int, key: int) -> int:
    operation_key = np.uint64((w * OPERATIONS + k) * KEYS + key + 1)
    hashed = mix64(header.seed + operation_key * _HASH_MULTIPLIER)
    bits = int64(hashed >> np.uint64(40))
    if not header.is_extreme:
        delta = 1 + bits % _MAX_ORDINARY_DELTA
        return -delta if header.combination == MIN_CODE else delta  # a minimum of positive values would be 0
    return int64(EXTREMES[bits % len(EXTREMES)]) if bits & _COIN_FLIP else int64(hashed) & MAX_U32


@entry_point
def run_operations(world: World, operations: WorkerOperations, until: int) -> int:
    world, operations = as_ref(world), as_ref(operations)
    header = operations.header
    while True:
        reason = run_until_needed(world, until)
        agent = world.header.agent
        if reason == LOG_FULL:
            if agent >= world.header.workers:
                return SERVER_LOG_FULL
            _count_answered(world, operations, agent)
        elif reason == DRIVER_DUE:
            _count_answered(world, operations, agent)
            _drive_worker(world, operations, agent)
            if header.answered >= header.rpc_target:
                return RPCS_REACHED
        else:
            return reason


@compiled
def _count_answered(world: World, operations: WorkerOperations, w: int) -> None:
    client_header = world.workers.header[w]
    operations.header.answered += client_header.rows  # the log has a row for each answered RPC
    client_header.rows = 0


@compiled
def _drive_worker(world: World, operations: WorkerOperations, w: int) -> None:
    # Complete the operation that has ended, if any, and start the next once it is due.
    header, worker, client = operations.header, operations.progress[w], row(world.workers, w)
    now = world.header.now
    if client.header.pending == 0 and worker.state != IDLE:
        _end_operation(operations, w, client, now)
    send_at, next_due = now, NEVER  # when the worker may send; when it is to be driven again
    if client.header.pending == 0:
        if client.header.unreplayed:
            n = next_unreplayed(client)
            take_unreplayed(client, n)
            worker.state = REPLAYING
            if n:
                _start_operation(client, PUSH, _REPLAY_ITERATION, n)
                send_at = now + header.begin_ns
            else:
                worker.state, next_due = IDLE, now  # the rest of the replay log is empty
        elif not (header.is_closing or worker.operations == OPERATIONS):
            next_due = worker.due
            if next_due <= now:
                _invoke(operations, w, client, now)
                send_at = now + header.begin_ns
    resume_worker(world, w, send_at, max(next_due, send_at))


@compiled
def _end_operation(operations: WorkerOperations, w: int, client: ClientState, now: int) -> None:
    header, worker = operations.header, operations.progress[w]
    if worker.state == IN_OPERATION:
        _complete(operations, w, client, now)
    worker.state = IDLE
    worker.due = now + int64(next_random(header) * header.think_ns)


@compiled
def _invoke(operations: WorkerOperations, w: int, client: ClientState, now: int) -> None:
    n = _draw_operation(operations, w, client, now)
    k = operations.progress[w].operations
    _start_operation(client, operations.history[w, k - 1].kind, k, n)


@compiled
def _draw_operation(operations: WorkerOperations, w: int, client: ClientState, now: int) -> int:
    """Write the next operation into the history and its keys into the client; return their number."""
    header, worker = operations.header, operations.progress[w]
    k, n, n_values, mask = worker.operations, 0, 0, np.uint64(0)
    kind = PULL if next_random(header) < header.pull_probability else PUSH
    for key in range(KEYS):
        # An operation has at least one key: the last, if none was drawn.
        if next_random(header) < header.key_probability or (key == KEYS - 1 and n == 0):
            client.positions[n] = key
            delta = delta_of(header, w, k, key)
            for v in range(int64(operations.dims[key])):
                client.deltas[n_values + v] = delta * (v + 1) & MAX_U32
            n_values += int64(operations.dims[key])
            mask |= np.uint64(1) << np.uint64(key)
            n += 1
    operation = operations.history[w, k]
    operation.kind, operation.invoked, operation.mask = kind, now, mask
    operation.completed, operation.added = 0, np.uint64(0)
    worker.operations += 1
    worker.state = IN_OPERATION
    return n


@compiled
def _start_operation(client: ClientState, kind: int, iteration: int, n: int) -> None:
    for i in range(n):
        client.answered[i] = False
    start(client, kind, iteration, n)


@compiled
def _complete(operations: WorkerOperations, w: int, client: ClientState, now: int) -> None:
    worker = operations.progress[w]
    k = worker.operations - 1
    operations.history[w, k].completed = now
    worker.completed += 1
    _record_answers(operations, w, k, client)


@compiled
def _record_answers(operations: WorkerOperations, w: int, k: int, client: ClientState) -> None:
    operation, added, start = operations.history[w, k], np.uint64(0), int64(0)
    for i in range(client.header.n_keys):
        key = int64(client.positions[i])
        first_value, dim = start, int64(operations.dims[key])
        start += dim
        if operation.kind == PULL:
            operations.pulled[w, k, key] = client.values[first_value]
            if operation.completed:  # the rows of a killed worker's pull may not have come
                operations.header.torn += is_torn(client.values, first_value, dim)
        elif client.answered[i]:
            added |= np.uint64(1) << np.uint64(key)
    operation.added |= added  # a successor pushes only those rows that the killed worker has left


@compiled
def is_torn(values: Words, start: int, dim: int) -> bool:
    """Return whether the row of `dim` values from `start` on has a push in some of its values only."""
    first, is_different = int64(values[start]), False
    for v in range(dim):
        is_different |= int64(values[start + v]) != first * (v + 1) & MAX_U32
    return is_different


@entry_point
def abandon_operation(world: World, operations: WorkerOperations, w: int) -> None:
    """End the operation of a worker that is killed, and record the answers received so far."""
    world, operations = as_ref(world), as_ref(operations)
    _count_answered(world, operations, w)
    worker = operations.progress[w]
    if worker.state == IN_OPERATION:
        _record_answers(operations, w, worker.operations - 1, row(world.workers, w))
    worker.state = IDLE


@entry_point
def continue_push(world: World, operations: WorkerOperations, w: int, n: int) -> None:
    """Push the first `n` rows of the worker's row of the world, the rest of its last operation."""
    world, operations = as_ref(world), as_ref(operations)
    worker = operations.progress[w]
    worker.state = IN_OPERATION
    _start_operation(row(world.workers, w), PUSH, worker.operations - 1, n)


def complete_push(operations: WorkerOperations, w: int, keys: Ints, *, is_whole: bool, now: int) -> None:
    """Record that rows of the worker's last operation were added; `is_whole`: they were the last ones."""
    operation = operations.history[w, int(operations.progress[w].operations) - 1]
    for key in keys.tolist():
        operation.added |= np.uint64(1) << np.uint64(key)
    operation.completed = now if is_whole else 0


_delta_of = plain(delta_of)
_NS_PER_US = 1_000


def history_of(operations: WorkerOperations) -> list[dict[str, object]]:
    """Return operations in order of invocation; `completed_us` is None if an operation did not complete.

    `keys` maps keys to the values that were pushed, or that a completed pull has returned; `unknown` lists
    the unacknowledged keys of a push.
    """
    rows = [
        _row_of_operation(operations, w, k)
        for w, worker in enumerate(operations.progress)
        for k in range(int(worker.operations))
    ]
    return sorted(rows, key=lambda row: cast(float, row["invoked_us"]))


def _row_of_operation(operations: WorkerOperations, w: int, k: int) -> dict[str, object]:
    operation = operations.history[w, k]
    mask, added = int(operation.mask), int(operation.added)
    keys = [key for key in range(KEYS) if mask >> key & 1]
    completed = int(operation.completed)
    row: dict[str, object] = {
        "worker": w + 1,
        "op": Op(int(operation.kind)).name,
        "invoked_us": int(operation.invoked) / _NS_PER_US,
        "completed_us": completed / _NS_PER_US if completed else None,
    }
    if operation.kind == PULL:
        return {
            **row,
            "keys": {key: int(operations.pulled[w, k, key]) if completed else None for key in keys},
        }
    unknown_keys = [key for key in keys if not added >> key & 1]
    return {
        **row,
        "keys": {key: int(_delta_of(operations.header, w, k, key)) for key in keys},
        "unknown": unknown_keys,
    }


@entry_point
def begin_external_operation(world: World, operations: WorkerOperations, w: int) -> int:
    """Draw the next operation of a worker outside of the world; return its number of keys.

    The keys and deltas are in the positions and deltas of the worker's row in the world. There the worker
    writes what is answered, for `end_external_operation` and `abandon_operation`.
    """
    world, operations = as_ref(world), as_ref(operations)
    client = row(world.workers, w)
    n = _draw_operation(operations, w, client, world.header.now)
    client.header.n_keys, client.header.pending = n, n
    for i in range(n):
        client.answered[i] = False
    return n


@entry_point
def end_external_operation(world: World, operations: WorkerOperations, w: int) -> bool:
    """Record the end of an operation; return whether `rpc_target` RPCs are answered."""
    world, operations = as_ref(world), as_ref(operations)
    client = row(world.workers, w)
    client.header.pending = 0
    _count_answered(world, operations, w)
    _end_operation(operations, w, client, world.header.now)
    return operations.header.answered >= operations.header.rpc_target
