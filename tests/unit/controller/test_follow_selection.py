"""The selection of keys that a hot set changes: small cases by hand, and invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.hotset import selection
from controller.hotset.migrate import WAVE
from controller.hotset.selection import HotSetChange, Rates, SwapRule, choose, smooth_rates, sum_by_key
from controller.sizes import SLOTS
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import LANES

ROOM = [SLOTS] * LANES
SETTLED = 60
"""Periods after which a smoothed rate equals its count, up to rounding."""


def rates_of(counts: Mapping[int, float]) -> Rates:
    keys = sorted(counts)
    return Rates(np.array(keys, dtype=np.uint64), np.array([counts[key] for key in keys], dtype=np.float64))


def chosen(
    counts: Mapping[int, float], hot: list[int], rule: SwapRule, room: list[int] | None = None
) -> HotSetChange:
    return choose(rates_of(counts), np.array(hot, dtype=np.uint64), rule, ROOM if room is None else room)


def test_a_swap_rule_has_the_documented_defaults() -> None:
    assert (
        SwapRule(1) == SwapRule(top_k=1, margin=1.25, max_swaps=1024) == SwapRule(1, selection.MARGIN, WAVE)
    )


def test_counts_of_a_key_add_up_and_rates_are_smoothed_over_a_few_periods() -> None:
    counted = sum_by_key(np.array([7, 3, 7], dtype=np.uint64), np.array([100, 5, 60]))
    assert (counted.keys.tolist(), counted.rates.tolist()) == ([3, 7], [5.0, 160.0])
    nothing = sum_by_key(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
    rates, seen = Rates.none(), []
    for each in (counted, counted, nothing, nothing, nothing):
        rates = smooth_rates(rates, each)
        seen.append(rates.lookup(np.array([7, 3, 9], dtype=np.uint64)).tolist())
    assert seen == [[80, 2.5, 0], [120, 3.75, 0], [60, 1.875, 0], [30, 0.9375, 0], [15, 0.46875, 0]]


def test_a_key_with_a_tiny_rate_is_forgotten() -> None:
    rates = smooth_rates(rates_of({1: 0.3, 2: 0.1}), Rates.none())
    assert rates.keys.tolist() == [1]


def test_a_hotter_key_takes_the_place_of_the_coldest() -> None:
    change = chosen({1: 1000, 2: 400, 3: 900, 4: 300}, [1, 2], SwapRule(2))
    assert change == HotSetChange(swaps=((3, 2),), filling=(), surplus=())
    assert change.apply_to([1, 2]) == [1, 3] and (change.arriving, change.leaving) == ([3], [2])


@pytest.mark.parametrize(
    ("cold", "hot", "moves"),
    [
        (1250, 1000, False),
        (1300, 1000, True),  # beyond the margin, and 6.3 times what chance does: 1300 - 1000 of 2 * 27.7
        (20, 14, False),  # beyond the margin, as chance has it: 6 of 2 * 3.4
        (21, 14, True),  # 7 of 2 * 3.4
        (1, 0, False),  # 1 of 2 * 0.6
        (2, 0, True),  # 2 of 2 * 0.8
    ],
)
def test_a_key_moves_only_if_hotter_by_the_margin_and_by_more_than_chance(
    cold: float, hot: float, moves: bool
) -> None:
    assert bool(chosen({1: hot, 2: cold}, [1], SwapRule(1))) is moves


@pytest.mark.parametrize(("newcomer", "periods"), [(5200, 1), (4900, 2), (3600, 2), (3300, 3), (2400, 0)])
def test_a_new_key_must_be_much_hotter_at_first(newcomer: int, periods: int) -> None:
    """Against 2,000 updates a period, a key needs 2.5 times as many at first, and later 1.25 times."""
    rates = rates_of({1: 2000})
    counts = rates_of({1: 2000, 2: newcomer})
    hot = np.array([1], dtype=np.uint64)
    taken = 0
    for period in range(1, SETTLED):
        rates = smooth_rates(rates, counts)
        if choose(rates, hot, SwapRule(1), ROOM):
            taken = period
            break
    assert taken == periods


def test_a_small_set_is_filled_and_a_large_set_loses_its_coldest_keys() -> None:
    counts = {key: 100.0 * key for key in range(1, 9)}
    assert chosen(counts, [1], SwapRule(4, max_swaps=0)).filling == (8, 7, 6)
    assert chosen(counts, [1, 8, 3, 7], SwapRule(2, max_swaps=0)).surplus == (3, 1)
    full = chosen(counts, [1, 2], SwapRule(3, max_swaps=1))
    assert full == HotSetChange(swaps=((7, 1),), filling=(8,), surplus=())


def test_swaps_in_a_period_are_limited() -> None:
    counts = {key: 1.0 for key in range(10)} | {key: 1000.0 + key for key in range(10, 20)}
    assert len(chosen(counts, list(range(10)), SwapRule(10, max_swaps=4)).swaps) == 4
    assert len(chosen(counts, list(range(10)), SwapRule(10)).swaps) == 10


def test_in_a_full_lane_a_key_replaces_a_key_of_the_same_lane() -> None:
    lane = [key for key in range(1000) if lane_of(key) == 5]
    others = [key for key in range(1000) if lane_of(key) != 5]
    counts = {lane[0]: 500.0, lane[1]: 900.0, others[0]: 100.0, others[1]: 800.0, lane[2]: 400.0}
    room = [1] * LANES
    change = chosen(counts, [lane[0], others[0]], SwapRule(2), room)
    assert change.swaps == ((lane[1], lane[0]), (others[1], others[0]))
    assert chosen(counts, [], SwapRule(4), room).filling == (lane[1], others[1], others[0])
    # One that finds no place there keeps no other from its own, and a lane that was left has a place again.
    counts[lane[0]] = 800.0
    assert chosen(counts, [lane[0], others[0]], SwapRule(2), room).swaps == ((others[1], others[0]),)
    counts[lane[0]] = 50.0
    counts[others[1]] = 1000.0
    swaps = chosen(counts, [lane[0], others[0]], SwapRule(2), room).swaps
    assert swaps == ((others[1], lane[0]), (lane[1], others[0]))


counts_of = st.dictionaries(st.integers(0, 60), st.integers(0, 3000), max_size=40)
rules = st.builds(SwapRule, top_k=st.integers(1, 30), margin=st.floats(1, 3), max_swaps=st.integers(0, 20))
rooms = st.lists(st.integers(0, 3), min_size=LANES, max_size=LANES)


@st.composite
def hot_sets(draw: st.DrawFn, room: list[int]) -> list[int]:
    """Draw keys that the lanes have room for."""
    free = list(room)
    hot = []
    for key in draw(st.lists(st.integers(0, 60), unique=True)):
        if free[lane_of(key)]:
            free[lane_of(key)] -= 1
            hot.append(key)
    return hot


@given(counts_of, rules, st.data())
def test_a_change_for_any_counts_fits_the_lanes_and_keeps_the_hottest_keys(
    counts: dict[int, int], rule: SwapRule, data: st.DataObject
) -> None:
    room = data.draw(rooms)
    hot = data.draw(hot_sets(room))
    change = chosen(counts, hot, rule, room)
    after = change.apply_to(hot)
    rate = Counter(counts)
    assert len(after) == len(set(after)) <= rule.top_k
    assert all(number <= room[lane] for lane, number in Counter(map(lane_of, after)).items())
    assert len(change.swaps) <= rule.max_swaps
    assert not set(change.arriving) & set(hot) and set(change.leaving) <= set(hot)
    assert set(change.arriving) <= set(counts)
    for arrived, left in change.swaps:
        assert rate[arrived] > rule.margin * rate[left]
    assert len(change.surplus) == max(0, len(hot) - rule.top_k)
    # What stays out is no better than what comes in, where lanes have room.
    if room == [3] * LANES and change.arriving:
        worst = min(rate[key] for key in change.arriving)
        assert all(rate[key] <= worst for key in counts if key not in after and key not in hot)


@given(
    st.dictionaries(st.integers(0, 200), st.integers(0, 3000), max_size=100),
    st.dictionaries(st.integers(0, 200), st.integers(0, 3000), max_size=100),
    st.builds(SwapRule, top_k=st.integers(1, 40), margin=st.floats(1, 2), max_swaps=st.integers(1, 30)),
)
def test_the_set_follows_and_then_rests(
    before: dict[int, int], after: dict[int, int], rule: SwapRule
) -> None:
    """When other keys become hot, the set takes them within a bounded time, up to margin and chance."""
    rates, hot = Rates.none(), np.empty(0, dtype=np.uint64)
    for counts in (before, after):
        for _ in range(SETTLED + -(-rule.top_k // rule.max_swaps)):
            rates = smooth_rates(rates, rates_of(counts))
            hot = np.array(choose(rates, hot, rule, ROOM).apply_to(hot.tolist()), dtype=np.uint64)
        rates = smooth_rates(rates, rates_of(counts))
        assert not choose(rates, hot, rule, ROOM)
    coldest = min((after.get(key, 0) for key in hot.tolist()), default=0)
    left_out = [count for key, count in after.items() if key not in set(hot.tolist())]
    if len(hot) < rule.top_k:
        assert not any(left_out)
    assert not any(rule.beats(count - 1e-6, coldest) for count in left_out if count)


def test_keys_whose_counts_vary_by_chance_alone_hardly_move() -> None:
    """The counts are of a Poisson process: without a rule for chance a tenth would change each period."""
    random = np.random.default_rng(1)
    keys = np.arange(20_000, dtype=np.uint64)
    shares = (keys.astype(np.float64) + 1) ** -0.85
    expected = 100_000 * shares / shares.sum()
    rule = SwapRule(1000)
    rates, hot = Rates.none(), keys[:1000]
    moved = []
    for _ in range(20):
        rates = smooth_rates(rates, sum_by_key(keys, random.poisson(expected)))
        change = choose(rates, hot, rule, ROOM)
        moved.append(len(change.swaps))
        hot = np.array(change.apply_to(hot.tolist()), dtype=np.uint64)
    assert max(moved[5:]) <= 20
    assert expected[hot.astype(np.int64)].sum() > 0.98 * expected[:1000].sum()
