"""Choose which keys should be hot by their rates of updates, and the rules `window` and `top-k`: no I/O.

Moves have a cost, and counts vary by chance, so a cold key replaces a hot one only if its rate is higher by a
margin and by more than chance. Rates are updates per period, exponentially smoothed from 0 on: a new key's
rate is half of its updates in its first period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.hotset.migrate import WAVE
from controller.hotset.quotas import ALL_SLOTS, Slots, divide, first_per_lane, lane_room, slots_of
from controller.hotset.rules import PeriodUpdates
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import lanes_of_dim
from foundation.protocol.register_packing import rank_in_group
from foundation.protocol.rows import ONE_VALUE, RowRanges

MARGIN = 1.25
NEWEST_WEIGHT = 0.5
"""Weight of the newest period: rates show 1/2 of a change after one period, 7/8 after three periods."""
_SIGMAS = 2.0  # difference of rates, in standard deviations, that is more than chance
_MIN_RATE = 0.1  # lower rates are forgotten
_CANDIDATES = 2  # cold keys to consider for each key that may become hot in a period


class Rates(NamedTuple):
    """Updates per period by key; other keys have rate 0."""

    keys: Keys  # distinct keys [n], ascending
    rates: NDArray[np.float64]

    @classmethod
    def none(cls) -> Rates:
        return cls(np.empty(0, dtype=np.uint64), np.empty(0))

    def lookup(self, keys: Keys) -> NDArray[np.float64]:
        if not len(self.keys):
            return np.zeros(len(keys))
        positions = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[positions] == keys, self.rates[positions], 0.0)


def sum_by_key(keys: Keys, counts: NDArray[np.number]) -> Rates:  # integers or floats
    """Return the sums of counts or rates [n] by key; `keys` [n] may repeat."""
    distinct_keys, positions = np.unique(keys, return_inverse=True)
    return Rates(distinct_keys, np.bincount(positions, counts, len(distinct_keys)).astype(np.float64))


def smooth_rates(previous: Rates, counts: Rates) -> Rates:
    weighted_rates = ((1 - NEWEST_WEIGHT) * previous.rates, NEWEST_WEIGHT * counts.rates)
    sums = sum_by_key(np.append(previous.keys, counts.keys), np.append(*weighted_rates))
    is_relevant = sums.rates >= _MIN_RATE
    return Rates(sums.keys[is_relevant], sums.rates[is_relevant])


def cold_limit(top_k: int, hot_keys: int, max_swaps: int = WAVE) -> int:
    """Return how many keys outside the switch, the most updated ones, are considered in a period."""
    return max(top_k - hot_keys, 0) + _CANDIDATES * max_swaps


@dataclass(frozen=True, slots=True)
class SwapRule:
    """When a cold key replaces a hot key, in a hot set of at most `top_k` keys."""

    top_k: int
    margin: float = MARGIN
    """Factor by which the rate of a cold key must exceed that of the hot key it replaces."""
    max_swaps: int = WAVE  # per period

    def beats(self, cold_rate: float, hot_rate: float) -> bool:
        """Return whether the cold key's rate exceeds the hot key's by the margin, and by more than chance."""
        # A count n has variance n; exponential smoothing with weight w multiplies a variance by w / (2 - w).
        deviation = sqrt((cold_rate + hot_rate) * NEWEST_WEIGHT / (2 - NEWEST_WEIGHT))
        return cold_rate > self.margin * hot_rate and cold_rate - hot_rate > _SIGMAS * deviation


@dataclass(frozen=True, slots=True)
class HotSetChange:
    swaps: tuple[tuple[int, int], ...]  # (arriving key, leaving key)
    filling: tuple[int, ...]  # arriving keys for free slots
    surplus: tuple[int, ...]  # leaving keys for which there is no room
    slots: Mapping[int, int] = field(default_factory=dict)
    """Slots of arriving keys; keys without one get any that is free."""

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


def choose(rates: Rates, hot: Keys, rule: SwapRule, room: Sequence[int], dim: int = 1) -> HotSetChange:
    """Return a change of `hot` keys [n] with `room` in each lane; of equal rates, smaller keys come first.

    Keys beyond the room of their lanes leave, the coldest first. All rows have `dim` values, and as many
    lanes as such rows have.
    """
    ranked_hot = _rank_keys(hot, rates.lookup(hot), dim)
    is_staying = rank_in_group(ranked_hot.lanes) < np.array(room)[ranked_hot.lanes]
    is_staying &= np.cumsum(is_staying) <= rule.top_k
    staying_keys, surplus = ranked_hot.select(is_staying), ranked_hot.keys[~is_staying]
    is_cold = ~np.isin(rates.keys, hot, assume_unique=True)
    ranked_arrivals = _rank_keys(rates.keys[is_cold], rates.rates[is_cold], dim).to_list()
    free_slots = np.array(room) - np.bincount(staying_keys.lanes, minlength=len(room))
    filling, waiting_arrivals = _fill_free_slots(
        ranked_arrivals, rule.top_k - len(staying_keys.keys), free_slots
    )
    swaps = _choose_swaps(waiting_arrivals, _Victims(staying_keys, len(room)), rule, free_slots)
    return HotSetChange(swaps, tuple(filling), tuple(surplus.tolist()))


class SelectedKeys(Protocol):
    """Keys that a job should have in the switch, as far as its share of the slots allows."""

    def choose(self, room: Slots) -> HotSetChange:
        """Return the change of the job's hot set if it has `room` slots in each bank."""

    def wanted_slots(self) -> Slots:
        """Return the slots that the job would use if it had all."""


class HotSetState(NamedTuple):
    """A hot set whose keys are replaced by rates."""

    rates: Rates
    hot: Keys
    rule: SwapRule
    ranges: RowRanges = ONE_VALUE
    """`choose` expects rows of one dim; `placement.in_slots` chooses rows of several dims."""

    def choose(self, room: Slots) -> HotSetChange:
        dim = self.ranges[0].dim
        return choose(self.rates, self.hot, self.rule, lane_room(room, dim).tolist(), dim)

    def wanted_slots(self) -> Slots:
        return slots_of(self.choose(ALL_SLOTS).apply_to(self.hot.tolist()), self.ranges)


class RuleChoice(NamedTuple):
    """The keys that a rule has chosen."""

    keys: Keys  # the most wanted first
    hot: Keys
    ranges: RowRanges = ONE_VALUE

    def choose(self, room: Slots) -> HotSetChange:
        hot = self.hot.tolist()
        wanted = dict.fromkeys(first_per_lane(self.keys.tolist(), room, self.ranges))
        arriving, leaving = wanted.keys() - set(hot), set(hot) - wanted.keys()
        return HotSetChange(
            swaps=(),
            filling=tuple(key for key in wanted if key in arriving),
            surplus=tuple(key for key in hot if key in leaving),
        )

    def wanted_slots(self) -> Slots:
        return np.minimum(slots_of(self.keys.tolist(), self.ranges), ALL_SLOTS)


class WindowRule:
    """The most updated keys of a sliding window, where a key replaces another only if it leads clearly."""

    def __init__(self, top_k: int) -> None:
        self._rule = SwapRule(top_k)
        self._rates = Rates.none()

    def choose(self, period: PeriodUpdates) -> list[int]:
        self._rates = smooth_rates(self._rates, Rates(period.keys, period.updates.astype(np.float64)))
        return (
            HotSetState(self._rates, period.hot, self._rule).choose(ALL_SLOTS).apply_to(period.hot.tolist())
        )


class TopKRule:
    """The most updated keys of a period."""

    def __init__(self, top_k: int) -> None:
        self._top_k = top_k

    def choose(self, period: PeriodUpdates) -> Keys:
        ranked_keys = period.keys[np.lexsort((period.keys, -period.updates))]
        return ranked_keys[: min(self._top_k, np.count_nonzero(period.updates))]


def choose_for_jobs(
    jobs: Mapping[int, SelectedKeys], held_slots: Mapping[int, Slots], quotas: Mapping[int, int], room: Slots
) -> tuple[dict[int, HotSetChange], dict[int, Slots]]:
    """Return the changes of jobs that share `room`, and the remaining slots of other jobs."""
    shares = divide(
        {job: selected.wanted_slots() for job, selected in jobs.items()}, held_slots, quotas, room
    )
    changes = {job: selected.choose(shares[job]) for job, selected in jobs.items()}
    return changes, {job: shares[job] for job in held_slots}


class _Key(NamedTuple):
    key: int
    rate: float
    lane: int


class _RankedKeys(NamedTuple):
    keys: Keys
    rates: NDArray[np.float64]
    lanes: NDArray[np.uint8]

    def select(self, mask: NDArray[np.bool_]) -> _RankedKeys:
        return _RankedKeys(self.keys[mask], self.rates[mask], self.lanes[mask])

    def key_at(self, rank: int) -> _Key:
        return _Key(int(self.keys[rank]), float(self.rates[rank]), int(self.lanes[rank]))

    def to_list(self) -> list[_Key]:
        return [_Key(*row) for row in zip(*(column.tolist() for column in self), strict=True)]


def _rank_keys(keys: Keys, rates: NDArray[np.float64], dim: int) -> _RankedKeys:
    order = np.lexsort((keys, -rates))
    return _RankedKeys(keys[order], rates[order], lanes_of(keys[order], lanes_of_dim(dim)))


def _fill_free_slots(
    arrivals: Sequence[_Key], max_arrivals: int, free_slots: NDArray[np.int64]
) -> tuple[list[int], list[_Key]]:
    """Return the first `max_arrivals` arrivals that get a slot, and the others; reduce `free_slots`."""
    filling: list[int] = []
    waiting_arrivals: list[_Key] = []
    for arrival in arrivals:
        if len(filling) < max_arrivals and free_slots[arrival.lane] > 0:
            free_slots[arrival.lane] -= 1
            filling.append(arrival.key)
        else:
            waiting_arrivals.append(arrival)
    return filling, waiting_arrivals


def _choose_swaps(
    arrivals: Sequence[_Key], victims: _Victims, rule: SwapRule, free_slots: NDArray[np.int64]
) -> tuple[tuple[int, int], ...]:
    swaps: list[tuple[int, int]] = []
    for arrival in arrivals:
        if len(swaps) == rule.max_swaps:
            break
        is_full = free_slots[arrival.lane] <= 0
        victim = victims.find_coldest(arrival.lane if is_full else None)
        if victim is not None and rule.beats(arrival.rate, victim.rate):
            victims.remove(victim)
            free_slots[arrival.lane] -= 1
            free_slots[victim.lane] += 1
            swaps.append((arrival.key, victim.key))
        elif not is_full:
            break  # Later arrivals have lower rates.
    return tuple(swaps)


class _Victims:
    def __init__(self, hot_keys: _RankedKeys, lanes: int) -> None:
        self._ranked_keys = hot_keys
        self._taken_keys: set[int] = set()
        # Lists of ranks, the coldest key's last; only the last few are read.
        self._ranks = list(range(len(hot_keys.keys)))
        self._ranks_by_lane = [np.flatnonzero(hot_keys.lanes == lane).tolist() for lane in range(lanes)]

    def find_coldest(self, lane: int | None) -> _Key | None:
        ranks = self._ranks if lane is None else self._ranks_by_lane[lane]
        while ranks and int(self._ranked_keys.keys[ranks[-1]]) in self._taken_keys:
            ranks.pop()
        return self._ranked_keys.key_at(ranks[-1]) if ranks else None

    def remove(self, victim: _Key) -> None:
        self._taken_keys.add(victim.key)
