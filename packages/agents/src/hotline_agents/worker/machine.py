"""The worker functions that Python calls, for any design: compiled, or as plain Python."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias, cast

from foundation.compiled import entry_points, loop, pinning
from foundation.protocol.rpc import Rpc
from hotline_agents.interface import WORKER_OPS, WorkerOps, WorkerState
from nativekit.generic import Generic
from nativekit.plain import plain
from nativekit.records import Records
from nativekit.reference import as_ref

receive = WORKER_OPS.receive
Machine: TypeAlias = WorkerOps[Any]  # of any state: each call looks up the functions of the state's class
# Python does not call the prefetch functions, which come last.
_OP_NAMES = WorkerOps._fields[: WorkerOps._fields.index("prefetch_next")]


def worker_states(state: object) -> list[tuple[Generic, type]]:
    return [(cast(Generic, WORKER_OPS.transmit), type(state))]


@loop(worker_states)
def _receive(state: WorkerState, inbox: Records[Rpc], length: int, arrival: int, read: int) -> int:
    return receive(as_ref(state), inbox[0], length, arrival, read)


pinned = pinning(worker_states)

# Python passes a datagram as an array of one record, for which `WorkerOps` has no type.
_receive_record: Any = _receive
COMPILED: Machine = entry_points(WORKER_OPS, _OP_NAMES, worker_states)._replace(receive=_receive_record)


@cache
def plain_machine() -> Machine:
    return Machine(**{name: plain(getattr(COMPILED, name)) for name in _OP_NAMES})
