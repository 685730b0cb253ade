"""The functions of a worker's half as Python calls them: compiled, or as their plain twin. Of any design."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias, cast

from foundation.compiled import entry_points, loop
from foundation.designs.interface import WORKER_OPS, WorkerOps, WorkerState
from foundation.protocol.rpc import Rpc
from nativekit.generic import Generic
from nativekit.plain import plain
from nativekit.records import Records
from nativekit.reference import as_ref

receive = WORKER_OPS.receive
Machine: TypeAlias = WorkerOps[Any]  # of whatever state: its class is looked at in each call
"""The functions that only prefetch keep their defaults, as Python does not call them."""
_NAMES = WorkerOps._fields[: WorkerOps._fields.index("prefetch_next")]


def worker_states(state: object) -> list[tuple[Generic, type]]:
    """The class of a worker's state."""
    return [(cast(Generic, WORKER_OPS.transmit), type(state))]


@loop(worker_states)
def _receive(state: WorkerState, inbox: Records[Rpc], length: int, arrival: int, read: int) -> int:
    """Take in the first datagram of an array."""
    return receive(as_ref(state), inbox[0], length, arrival, read)


# Of an array: Python cannot pass a datagram's record by itself.
_receive_first: Any = _receive  # which an interface of records has no type for
COMPILED: Machine = entry_points(WORKER_OPS, _NAMES, worker_states)._replace(receive=_receive_first)


@cache
def plain_machine() -> Machine:
    """The same as plain Python."""
    return Machine(**{name: plain(getattr(COMPILED, name)) for name in _NAMES})


def machine_for(codec: str) -> Machine:
    """Compiled with the codec "fast", plain with "scapy"."""
    return plain_machine() if codec == "scapy" else COMPILED
