"""Choose which keys should be hot by their rates of updates: pure functions, no I/O.

Moves have a cost, and counts vary by chance, so a cold key replaces a hot one only if its rate is higher by a
margin and by more than chance. Rates are updates per period, exponentially smoothed from 0 on: a new key's
rate is half of its updates in its first period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.hotset.migrate import WAVE
from controller.hotset.quotas import ALL_SLOTS, Slots, divide, ranks_in_lane, slots_of
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import lanes_of

MARGIN = 1.25
NEWEST = 0.5
"""Weight of the newest period: after one period rates show half of a change, after three seven eighths."""
_SIGMAS = 2.0
_MIN_RATE = 0.1


class Rates(NamedTuple):
    """Updates per period by key; other keys have rate 0."""

    keys: Keys  # distinct keys [n], ascending
    rates: NDArray[np.float64]

    @classmethod
    def none(cls) -> Rates:
        return cls(np.empty(0, dtype=np.uint64), np.empty(0))

    def at(self, keys: Keys) -> NDArray[np.float64]:
        if not len(self.keys):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.rates[at], 0.0)


def sum_by_key(keys: Keys, counts: NDArray[np.number]) -> Rates:  # integers or floats
    """Return the sums of counts or rates [n] by key; `keys` [n] may repeat."""
    distinct, at = np.unique(keys, return_inverse=True)
    return Rates(distinct, np.bincount(at, counts, len(distinct)).astype(np.float64))


def smoothed(before: Rates, counted: Rates) -> Rates:
    weighted = ((1 - NEWEST) * before.rates, NEWEST * counted.rates)
    both = sum_by_key(np.append(before.keys, counted.keys), np.append(*weighted))
    is_relevant = both.rates >= _MIN_RATE
    return Rates(both.keys[is_relevant], both.rates[is_relevant])


@dataclass(frozen=True, slots=True)
class Rule:
    top_k: int
    margin: float = MARGIN
    """Factor by which the rate of a cold key must exceed that of the hot key it replaces."""
    swaps: int = WAVE  # maximum per period

    def beats(self, cold: float, hot: float) -> bool:
        """Return whether rate `cold` beats `hot` by more than chance: a count n has standard deviation √n."""
        deviation = sqrt((cold + hot) * NEWEST / (2 - NEWEST))
        return cold > self.margin * hot and cold - hot > _SIGMAS * deviation


@dataclass(frozen=True, slots=True)
class Change:
    swaps: tuple[tuple[int, int], ...]  # (arriving key, leaving key)
    filling: tuple[int, ...]  # arriving keys for free slots
    surplus: tuple[int, ...]  # leaving keys for which there is no room

    def __bool__(self) -> bool:
        return bool(self.swaps or self.filling or self.surplus)

    def apply_to(self, hot: Iterable[int]) -> list[int]:
        leaving = set(self.leaving)
        return [key for key in hot if key not in leaving] + self.arriving

    @property
    def arriving(self) -> list[int]:
        return [*(key for key, _ in self.swaps), *self.filling]

    @property
    def leaving(self) -> list[int]:
        return [*(key for _, key in self.swaps), *self.surplus]


def choose(rates: Rates, hot: Keys, rule: Rule, room: Sequence[int]) -> Change:
    """Return a change of `hot` keys [n] with `room` in each lane; of equal rates, smaller keys come first.

    Keys beyond the room of their lanes leave, the coldest first.
    """
    ranked = _ranked(hot, rates.at(hot))
    stays = ranks_in_lane(ranked.lanes) < np.array(room)[ranked.lanes]
    stays &= np.cumsum(stays) <= rule.top_k
    staying, surplus = ranked.where(stays), ranked.keys[~stays]
    cold = ~np.isin(rates.keys, hot, assume_unique=True)
    arrivals = _ranked(rates.keys[cold], rates.rates[cold]).to_list()
    free = np.array(room) - np.bincount(staying.lanes, minlength=len(room))
    filling, waiting = _fill(arrivals, rule.top_k - len(staying.keys), free)
    swaps = _swap(waiting, _Victims(staying, len(room)), rule, free)
    return Change(swaps, tuple(filling), tuple(surplus.tolist()))


class HotSetState(NamedTuple):
    rates: Rates
    hot: Keys
    rule: Rule

    def choose(self, room: Slots) -> Change:
        return choose(self.rates, self.hot, self.rule, room.tolist())

    def wanted_slots(self) -> Slots:
        return slots_of(self.choose(ALL_SLOTS).apply_to(self.hot.tolist()))


def choose_for_jobs(
    jobs: Mapping[int, HotSetState], held: Mapping[int, Slots], quotas: Mapping[int, int], room: Slots
) -> tuple[dict[int, Change], dict[int, Slots]]:
    """Return the changes of jobs that share `room`, and what remains of the slots that other jobs `held`."""
    shares = divide({job: each.wanted_slots() for job, each in jobs.items()}, held, quotas, room)
    changes = {job: each.choose(shares[job]) for job, each in jobs.items()}
    return changes, {job: shares[job] for job in held}


class _Key(NamedTuple):
    key: int
    rate: float
    lane: int


class _Ranked(NamedTuple):
    keys: Keys
    rates: NDArray[np.float64]
    lanes: NDArray[np.uint8]

    def where(self, mask: NDArray[np.bool_]) -> _Ranked:
        return _Ranked(self.keys[mask], self.rates[mask], self.lanes[mask])

    def at(self, rank: int) -> _Key:
        return _Key(int(self.keys[rank]), float(self.rates[rank]), int(self.lanes[rank]))

    def to_list(self) -> list[_Key]:
        return [_Key(*row) for row in zip(*(column.tolist() for column in self), strict=True)]


def _ranked(keys: Keys, rates: NDArray[np.float64]) -> _Ranked:
    order = np.lexsort((keys, -rates))
    return _Ranked(keys[order], rates[order], lanes_of(keys[order]))


def _fill(arrivals: Sequence[_Key], places: int, free: NDArray[np.int64]) -> tuple[list[int], list[_Key]]:
    """Return the first `places` arrivals with a `free` slot in their lane, which they use, and all others."""
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
            break  # Later arrivals have lower rates.
    return tuple(swaps)


class _Victims:
    def __init__(self, hot: _Ranked, lanes: int) -> None:
        self._hot = hot
        self._taken: set[int] = set()
        # Indices into the ranking, the coldest last: only few are looked up.
        self._all = list(range(len(hot.keys)))
        self._of_lane = [np.flatnonzero(hot.lanes == lane).tolist() for lane in range(lanes)]

    def coldest(self, lane: int | None) -> _Key | None:
        remaining = self._all if lane is None else self._of_lane[lane]
        while remaining and int(self._hot.keys[remaining[-1]]) in self._taken:
            remaining.pop()
        return self._hot.at(remaining[-1]) if remaining else None

    def take(self, victim: _Key) -> None:
        self._taken.add(victim.key)
