"""What may happen to a worker's state, as Python calls it: compiled, or as its plain twin. Of any design."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

from foundation.compiled import loop
from foundation.designs import halves
from nativekit.generic import Generic
from nativekit.plain import plain
from nativekit.reference import as_ref

start, transmit, octets, peer, wake, deadline, receive, owed, take_owed, *_ = halves.WORKER


def worker_states(state: Any) -> list[tuple[Generic, type]]:
    """The class of a worker's state."""
    return [(cast(Any, halves.WORKER.transmit), type(state))]


@loop(worker_states)
def _start(state: Any, op: int, iteration: int, n_keys: int) -> None:
    start(as_ref(state), op, iteration, n_keys)


@loop(worker_states)
def _transmit(state: Any, now: int) -> int:
    return transmit(as_ref(state), now)


@loop(worker_states)
def _octets(state: Any, slot: int) -> int:
    return octets(as_ref(state), slot)


@loop(worker_states)
def _peer(state: Any, slot: int) -> int:
    return peer(as_ref(state), slot)


@loop(worker_states)
def _wake(state: Any, now: int) -> None:
    wake(as_ref(state), now)


@loop(worker_states)
def _deadline(state: Any) -> int:
    return deadline(as_ref(state))


@loop(worker_states)
def _receive(state: Any, inbox: Any, length: int, arrival: int, read: int) -> int:
    return receive(as_ref(state), inbox[0], length, arrival, read)


@loop(worker_states)
def _owed(state: Any) -> int:
    return owed(as_ref(state))


@loop(worker_states)
def _take_owed(state: Any, n: int) -> None:
    take_owed(as_ref(state), n)


class Machine(NamedTuple):
    """The functions of a `WorkerHalf`; `receive` takes the first datagram of an array."""

    start: Callable[[Any, int, int, int], None]
    transmit: Callable[[Any, int], int]
    octets: Callable[[Any, int], int]
    peer: Callable[[Any, int], int]
    wake: Callable[[Any, int], None]
    deadline: Callable[[Any], int]
    receive: Callable[[Any, Any, int, int, int], int]
    owed: Callable[[Any], int]
    take_owed: Callable[[Any, int], None]


COMPILED = Machine(_start, _transmit, _octets, _peer, _wake, _deadline, _receive, _owed, _take_owed)


@cache
def plain_machine() -> Machine:
    """The same as plain Python."""
    return Machine._make(plain(function) for function in COMPILED)


def machine_for(codec: str) -> Machine:
    """Compiled with the codec "fast", plain with "scapy"."""
    return plain_machine() if codec == "scapy" else COMPILED
