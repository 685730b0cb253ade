"""Which keys should be hot, by how often they were updated: pure functions, no I/O.

Moves cost, and counts vary by chance: so a cold key takes a hot one's place only where it is ahead by a
margin and by more than chance. Rates are updates a period, smoothed over a few, from 0 on: a key that is new
has to be twice as good in its first period as in the long run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.hotset.migrate import WAVE
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import lanes_of

MARGIN = 1.25
NEWEST = 0.5
"""Weight of the newest period: half of a change is seen in one, seven eighths in three."""
_SIGMAS = 2.0
_FORGOTTEN = 0.1
"""A rate below which a key is as good as never updated."""


class Rates(NamedTuple):
    """Updates a period by key; what is not there has 0."""

    keys: Keys
    """[n], ascending."""
    rates: NDArray[np.float64]
    """[n]"""

    @classmethod
    def none(cls) -> Rates:
        """Of no key."""
        return cls(np.empty(0, dtype=np.uint64), np.empty(0))

    def of(self, keys: Keys) -> NDArray[np.float64]:
        """The rate of each key."""
        if not len(self.keys):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.rates[at], 0.0)


def summed(keys: Keys, counts: NDArray[Any]) -> Rates:
    """Counts or rates of updates by key, where a key may have several."""
    distinct, at = np.unique(keys, return_inverse=True)
    return Rates(distinct, np.bincount(at, counts, len(distinct)).astype(np.float64))


def smoothed(before: Rates, counted: Rates) -> Rates:
    """The rates after one more period."""
    weighted = ((1 - NEWEST) * before.rates, NEWEST * counted.rates)
    both = summed(np.append(before.keys, counted.keys), np.append(*weighted))
    kept = both.rates >= _FORGOTTEN
    return Rates(both.keys[kept], both.rates[kept])


@dataclass(frozen=True, slots=True)
class Rule:
    """How large a set is to be, and how readily it changes."""

    top_k: int
    margin: float = MARGIN
    """A cold key must have so many times a hot one's rate to take its place."""
    swaps: int = WAVE
    """At most so many a period."""

    def beats(self, cold: float, hot: float) -> bool:
        """Whether a cold key of this rate takes the place of a hot one of that.

        Counts of a Poisson process vary by their square root, smoothed ones by less.
        """
        by_chance = sqrt((cold + hot) * NEWEST / (2 - NEWEST))
        return cold > self.margin * hot and cold - hot > _SIGMAS * by_chance


@dataclass(frozen=True, slots=True)
class Change:
    """What is to change in a hot set."""

    swaps: tuple[tuple[int, int], ...]
    """Key that arrives, and the one whose place it takes."""
    filling: tuple[int, ...]
    """Keys for free places."""
    surplus: tuple[int, ...]
    """Keys that leave a set which is too large."""

    def __bool__(self) -> bool:
        return bool(self.swaps or self.filling or self.surplus)

    def applied(self, hot: Iterable[int]) -> list[int]:
        """The set after it."""
        leaving = set(self.leaving)
        return [key for key in hot if key not in leaving] + self.arriving

    @property
    def arriving(self) -> list[int]:
        """Keys that were not in the set."""
        return [*(key for key, _ in self.swaps), *self.filling]

    @property
    def leaving(self) -> list[int]:
        """Keys that are no longer in it."""
        return [*(key for _, key in self.swaps), *self.surplus]


def choose(rates: Rates, hot: Keys, rule: Rule, room: Sequence[int]) -> Change:
    """How the `hot` set of distinct keys [n] should change; `room` is what each lane can hold of it.

    Keys of the same rate are taken in their order.
    """
    ranked = _ranked(hot, rates.of(hot))
    kept, surplus = ranked.up_to(rule.top_k), ranked.keys[rule.top_k :]
    cold = ~np.isin(rates.keys, hot, assume_unique=True)
    arrivals = _ranked(rates.keys[cold], rates.rates[cold]).each()
    free = np.array(room) - np.bincount(kept.lanes, minlength=len(room))
    filling, waiting = _fill(arrivals, rule.top_k - len(kept.keys), free)
    swaps = _swap(waiting, _Victims(kept, len(room)), rule, free)
    return Change(swaps, tuple(filling), tuple(surplus.tolist()))


class _Key(NamedTuple):
    key: int
    rate: float
    lane: int


class _Ranked(NamedTuple):
    """Keys, the one with the highest rate first."""

    keys: Keys
    rates: NDArray[np.float64]
    lanes: NDArray[np.uint8]

    def up_to(self, number: int) -> _Ranked:
        """The first so many."""
        return _Ranked(self.keys[:number], self.rates[:number], self.lanes[:number])

    def at(self, place: int) -> _Key:
        """One of them."""
        return _Key(int(self.keys[place]), float(self.rates[place]), int(self.lanes[place]))

    def each(self) -> list[_Key]:
        """All of them."""
        return [_Key(*row) for row in zip(*(column.tolist() for column in self), strict=True)]


def _ranked(keys: Keys, rates: NDArray[np.float64]) -> _Ranked:
    order = np.lexsort((keys, -rates))
    return _Ranked(keys[order], rates[order], lanes_of(keys[order]))


def _fill(arrivals: Sequence[_Key], places: int, free: NDArray[np.int64]) -> tuple[list[int], list[_Key]]:
    """The first arrivals that find a place, and all others."""
    filling: list[int] = []
    waiting: list[_Key] = []
    for arrival in arrivals:
        if len(filling) < places and free[arrival.lane] > 0:
            free[arrival.lane] -= 1
            filling.append(arrival.key)
        else:
            waiting.append(arrival)
    return filling, waiting


def _swap(
    arrivals: Sequence[_Key], victims: _Victims, rule: Rule, free: NDArray[np.int64]
) -> tuple[tuple[int, int], ...]:
    """Pairs of an arrival and the coldest key whose place it can take."""
    swaps: list[tuple[int, int]] = []
    for arrival in arrivals:
        if len(swaps) == rule.swaps:
            break
        is_full = free[arrival.lane] <= 0
        victim = victims.coldest(arrival.lane if is_full else None)
        if victim is not None and rule.beats(arrival.rate, victim.rate):
            victims.take(victim)
            free[arrival.lane] -= 1
            free[victim.lane] += 1
            swaps.append((arrival.key, victim.key))
        elif not is_full:
            break  # no arrival after it is better
    return tuple(swaps)


class _Victims:
    """Hot keys that have not lost their places yet: all of them, and those of each lane."""

    def __init__(self, hot: _Ranked, lanes: int) -> None:
        self._hot = hot
        self._taken: set[int] = set()
        # Few are looked at, so these are places in the ranking: the coldest is the last.
        self._all = list(range(len(hot.keys)))
        self._of_lane = [np.flatnonzero(hot.lanes == lane).tolist() for lane in range(lanes)]

    def coldest(self, lane: int | None) -> _Key | None:
        """The coldest one that is left, of a lane or of all."""
        left = self._all if lane is None else self._of_lane[lane]
        while left and int(self._hot.keys[left[-1]]) in self._taken:
            left.pop()
        return self._hot.at(left[-1]) if left else None

    def take(self, victim: _Key) -> None:
        """It has lost its place."""
        self._taken.add(victim.key)
