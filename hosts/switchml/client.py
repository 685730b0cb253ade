"""A worker's calls for one job, as Python sees them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.protocol.codec import Caller, Values
from foundation.protocol.header import WINDOW
from hosts.keys import KeySpace
from hosts.switchml.floats import MOST_EXPONENT
from hosts.switchml.packet import VALUES, WORKERS
from hosts.switchml.state import FLOATS, INTEGERS, Reducer, make_reducer
from hosts.worker.client import BaseClient
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog

_NS = 1_000_000_000


class StalledError(HotlineError):
    """An all-reduce does not go on."""


class Client(BaseClient):
    """One worker's calls for one job. All workers make the same, in the same order, and wait for each other.

    A pull reads the worker's own model; a push adds what all push to it. A replay log has nothing to keep."""

    state: Reducer

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW, *,
        largest: int | None = None, machine: Machine = COMPILED, log: ReplayLog | None = None,
    ) -> None:  # fmt: skip
        most = space.size if largest is None else largest
        state = make_reducer(caller.job, caller.worker, size=space.size, largest=most, window=window)
        super().__init__(state, clock, machine, log)
        self._size = space.size

    def join(self, workers: int) -> None:
        """So many workers add up from now on; raises `ValueError` where a slot has no bits for them."""
        if not 1 <= workers <= WORKERS:
            raise ValueError(f"{workers} workers; a slot has a bit for each of {WORKERS}")
        self._me["workers"] = workers

    @property
    def model(self) -> Values:
        """All parameters [size], which all workers have alike."""
        model: Values = self.state.model[: self._size]
        return model

    def all_reduce(self, vector: NDArray[np.float32] | NDArray[np.int32], workers: int) -> None:
        """Start to add up the vectors of so many workers, [n] each; all of them have the same n and type.

        float32 is added as the format can (`hosts.switchml.floats`), int32 modulo 2^32. Raises `ValueError`
        for a vector that cannot be added; the client must be idle."""
        n, most = len(vector), len(self.state.addend)
        if not 0 < n <= most:
            raise ValueError(f"a vector of {n} values; this client takes 1 to {most}")
        is_float = vector.dtype == np.float32
        if not (is_float or vector.dtype == np.int32):
            raise ValueError(f"a vector of {vector.dtype}; float32 or int32 expected")
        whole = -(-n // VALUES) * VALUES
        taken = self.state.floats if is_float else self.state.addend
        if is_float:
            _check(np.asarray(vector, np.float32))
        taken[:n], taken[n:whole] = vector, 0
        self.join(workers)
        self._machine.start(self.state, FLOATS if is_float else INTEGERS, 0, n)

    @property
    def result(self) -> NDArray[np.float32] | NDArray[np.int32]:
        """Of the last all-reduce, [n]; the next one writes over it."""
        found = self.state.floats if self._me["is_float"] else self.state.sums
        result: NDArray[np.float32] | NDArray[np.int32] = found[: self._me["n_keys"]]
        return result

    @property
    def incomplete(self) -> int:
        """Results that the switch completed without somebody, so far."""
        return int(self._me["incomplete"])

    @property
    def is_stalled(self) -> bool:
        """No result has come for `me.patience`; nothing is sent any more."""
        return bool(self._me["stalled"])

    def wake(self, now: int) -> None:
        """Do what is due; raises `StalledError` when no result has come for so long that none will."""
        super().wake(now)
        if self.is_stalled:
            me = self._me
            waited_s = (now - int(me["progress"])) / _NS
            raise StalledError(
                f"worker {me['worker']}: no result for {waited_s:.1f} s in all-reduce {me['number']}, with "
                f"{me['pending']} of {me['total']} packets to go: another worker is gone, or the switch has "
                "forgotten what it held"
            )


def _check(vector: NDArray[np.float32]) -> None:
    """Raise `ValueError` for the first value that has no exponent of eight bits."""
    wrong = np.flatnonzero(~(np.abs(vector) < np.float32(2.0**MOST_EXPONENT)))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"value {at} is {vector[at]}; finite ones below 2^{MOST_EXPONENT} can be added")
