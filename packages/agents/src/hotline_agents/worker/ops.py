"""The worker functions that Python calls, for any design: compiled, or as plain Python."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from foundation.compiled import classes_of, entry_points, loop, pinning, plain_entry_points
from foundation.protocol.rpc import Rpc
from hotline_agents.interface import WORKER_OPS, WorkerOps, WorkerState
from nativekit.records import Records
from nativekit.reference import as_ref

receive = WORKER_OPS.receive
AnyWorkerOps: TypeAlias = WorkerOps[Any]  # of any state: each call looks up the functions of its class
worker_states = classes_of(WORKER_OPS.transmit)
# Python does not call the prefetch functions, which come last.
_OP_NAMES = WorkerOps._fields[: WorkerOps._fields.index("prefetch_next")]


@loop(worker_states)
def _receive(state: WorkerState, inbox: Records[Rpc], length: int, arrival: int, read: int) -> int:
    return receive(as_ref(state), inbox[0], length, arrival, read)


pinned = pinning(worker_states)

# Python passes a datagram as an array of one record, for which `WorkerOps` has no type.
_receive_record: Any = _receive
COMPILED: AnyWorkerOps = entry_points(WORKER_OPS, _OP_NAMES, worker_states)._replace(receive=_receive_record)


@cache
def plain_ops() -> AnyWorkerOps:
    return plain_entry_points(COMPILED, _OP_NAMES)
