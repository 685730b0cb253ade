"""A history as rows: which worker invoked which operation, when, and the values returned."""

from __future__ import annotations

from typing import cast

from foundation.protocol.header import Op
from foundation.protocol.rpc import PULL
from nativekit.plain import plain
from simulator.faults.operations import KEYS, WorkerOperations, delta_of

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
