"""The interface of a policy, which serves accesses for one size or for all sizes in one pass.

A key is installed only with an access to it, as its value travels with that access; a key selected at the end
of a period waits for its next access. Therefore Belady's optimum is an upper bound for all policies.

A policy is a rule of live hot sets, too (`controller.hotset.rules`): it serves the updates of a period, and
the keys that it then has are the hot set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.errors import RuleError
from controller.hotset.rules import KeyChooser, PeriodUpdates
from foundation.protocol.codec import Keys
from hotline_policies.log import Accesses, PolicyLog

Levels = NDArray[np.uint8]  # with one size: 0 for a hit, 1 for a miss
"""Index of the smallest size that has the key, for each access[n]; the number of sizes if none has it."""
Serve = Callable[[Accesses, Levels], None]
"""Serve accesses[n] in order, and fill in their levels[n]."""
INSTALLS, EVICTIONS = 0, 1  # rows of `moves`
NEEDS_FUTURE = "needs the future, which a live run does not know"
MOVED_BY_SWITCH = "moves keys in the data plane at each packet, which the switch's program does not do"
"""Reasons why a policy cannot choose live hot sets (`PolicySpec.why_not_live`)."""
_SPARE_KEYS = 1 << 20
"""Keys beyond twice those of its first period for which a live policy has room."""


@dataclass(frozen=True, slots=True)
class Policy:
    serve: Serve
    moves: NDArray[np.int64]
    """[2, sizes]: INSTALLS and EVICTIONS so far."""
    end_period: Callable[[], None] = lambda: None
    held_keys: Callable[[], NDArray[np.integer]] | None = None
    """Returns the indexes of the keys that the smallest size has, or waits for; None if the policy cannot."""


MakePolicy = Callable[[PolicyLog, Sequence[int]], Policy]
"""Make a policy for a log and ascending sizes; exactly one size unless the policy is `one_pass`."""


@dataclass(frozen=True, slots=True)
class PolicySpec:
    name: str
    title: str
    description: str
    make: MakePolicy
    one_pass: bool = False
    """Whether the policy serves all sizes in one pass."""
    warms_up: bool = True
    """Whether the policy serves the training part before the scored part; otherwise its set is fixed."""
    by_switch: bool = False
    """Whether the data plane makes the moves by itself; otherwise the control plane writes tables."""
    is_bound: bool = False  # whether the policy is an upper bound, which needs knowledge of the future
    known_steps: int = 0
    """Coming mini-batches that the policy knows; it is a bound, too, on a log that has no more than these."""
    why_not_live: str = ""
    """Why the policy cannot choose live hot sets, as a verb phrase; empty if it can."""
    check: Callable[[int], object] | None = None
    """Starts a user's rule for a size, which raises `RuleError` for a bad rule; None for other policies."""
    stand_in: PolicySpec | None = None
    """Policy that is compiled before a replay in place of this one, whose rule shall see the log only."""

    def __call__(self, top_k: int) -> KeyChooser:
        """Start the policy as a rule of a live hot set; raises `RuleError` if it cannot be one."""
        if self.why_not_live:
            raise RuleError(f"rule {self.name} {self.why_not_live}; choose another rule")
        return LivePolicy(self, top_k) if self.warms_up else LiveFixedSet(self, top_k)


def zero_moves(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.zeros((2, len(sizes)), np.int64)


class LiveFixedSet:
    """A policy with a fixed set, as a rule that selects the set in its first period."""

    def __init__(self, spec: PolicySpec, top_k: int) -> None:
        self._spec, self._top_k = spec, top_k
        self._keys: Keys | None = None

    def choose(self, period: PeriodUpdates) -> Keys:
        if self._keys is None:
            accesses = period.in_order()
            log = _make_stub(period.keys, accesses)
            self._keys = _ranked_keys(self._spec.make(log, (self._top_k,)), period.keys, log.update_counts)
        return self._keys


class LivePolicy:
    """A policy that serves the updates of each period in turn, as a rule of a live hot set.

    After more keys than it has room for, it begins again, with the keys in the switch.
    """

    def __init__(self, spec: PolicySpec, top_k: int) -> None:
        self._spec, self._top_k = spec, top_k
        self._begin(np.empty(0, np.uint64))

    def _begin(self, first_keys: Keys) -> None:
        self._capacity = 2 * len(first_keys) + _SPARE_KEYS
        self._policy: Policy | None = None
        self._keys = np.empty(0, np.uint64)
        """Keys of the policy, ascending, and the index by which the policy knows each."""
        self._indexes = np.empty(0, np.int64)

    def choose(self, period: PeriodUpdates) -> Keys:
        accesses = period.keys[period.in_order()]
        if len(np.union1d(self._keys, period.keys)) > self._capacity or self._policy is None:
            self._begin(period.keys)
            stub = _make_stub(np.zeros(self._capacity, np.uint64), np.empty(0, np.uint32))
            self._policy = self._spec.make(stub, (self._top_k,))
            accesses = np.append(period.hot, accesses)
        self._add(period.keys)
        indexes = self._indexes_of(accesses).astype(np.uint32)
        self._policy.serve(indexes, np.empty(len(indexes), np.uint8))
        self._policy.end_period()
        key_of = np.empty_like(self._keys)
        key_of[self._indexes] = self._keys
        updates = np.zeros(len(key_of), np.int64)
        updates[self._indexes_of(period.keys)] = period.updates
        return _ranked_keys(self._policy, key_of, updates)

    def _add(self, keys: Keys) -> None:
        new_keys = np.setdiff1d(keys, self._keys, assume_unique=True)
        all_keys = np.append(self._keys, new_keys)
        indexes = np.append(self._indexes, np.arange(len(self._keys), len(all_keys)))
        order = np.argsort(all_keys)
        self._keys, self._indexes = all_keys[order], indexes[order]

    def _indexes_of(self, keys: Keys) -> NDArray[np.int64]:
        return self._indexes[np.searchsorted(self._keys, keys)]


def _make_stub(keys: Keys, accesses: NDArray[np.uint32]) -> PolicyLog:
    """Make a log with these accesses as its training part, or with room for as many keys."""
    return PolicyLog(
        "period", accesses, np.array([0, len(accesses)], np.int64), keys, has_pulls=False, tables=(),
        table_of=np.zeros(len(keys), np.uint16), notes=(), training_steps=1,
    )  # fmt: skip


def _ranked_keys(policy: Policy, keys: Keys, updates: NDArray[np.int64]) -> Keys:
    """Return the keys that a policy has, those with most updates first; `keys` and `updates` are by index."""
    assert policy.held_keys is not None
    held = policy.held_keys()
    ranked_keys: Keys = keys[held[np.lexsort((keys[held], -updates[held]))]]
    return ranked_keys
