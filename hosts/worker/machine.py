"""The state machine of a worker's calls, as Python calls it: compiled, or as its plain twin."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from hosts.worker.answers import receive
from hosts.worker.recovery import next_owed, renew, take_owed
from hosts.worker.requests import deadline, start, start_empty, transmit, wake
from hosts.worker.state import Calls
from native.compile import entry_point
from native.plain import plain
from native.reference import borrowed


@entry_point
def _start(state: Calls, op: int, iteration: int, n_keys: int) -> None:
    start(borrowed(state), op, iteration, n_keys)


@entry_point
def _start_empty(state: Calls, ps: int) -> None:
    start_empty(borrowed(state), ps)


@entry_point
def _transmit(state: Calls, now: int) -> int:
    return transmit(borrowed(state), now)


@entry_point
def _wake(state: Calls, now: int) -> None:
    wake(borrowed(state), now)


@entry_point
def _deadline(state: Calls) -> int:
    return deadline(borrowed(state))


@entry_point
def _receive(state: Calls, inbox: Any, length: int, arrival: int, read: int) -> int:
    return receive(borrowed(state), inbox[0], length, arrival, read)


@entry_point
def _renew(state: Calls, epoch: int) -> None:
    renew(borrowed(state), epoch)


@entry_point
def _next_owed(state: Calls) -> int:
    return next_owed(borrowed(state))


@entry_point
def _take_owed(state: Calls, n: int) -> None:
    take_owed(borrowed(state), n)


class Machine(NamedTuple):
    """What may happen to the state; see the functions of these names in `requests`, `answers` and `recovery`.

    `receive` takes the first datagram of an array.
    """

    start: Callable[[Calls, int, int, int], None]
    start_empty: Callable[[Calls, int], None]
    transmit: Callable[[Calls, int], int]
    wake: Callable[[Calls, int], None]
    deadline: Callable[[Calls], int]
    receive: Callable[[Calls, Any, int, int, int], int]
    renew: Callable[[Calls, int], None]
    next_owed: Callable[[Calls], int]
    take_owed: Callable[[Calls, int], None]


COMPILED = Machine(
    _start, _start_empty, _transmit, _wake, _deadline, _receive, _renew, _next_owed, _take_owed
)


@cache
def plain_machine() -> Machine:
    """The same as plain Python."""
    return Machine._make(plain(function) for function in COMPILED)
