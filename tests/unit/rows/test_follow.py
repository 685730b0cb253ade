"""Hot sets of rows of several dims follow drift: which rows replace which, slot by slot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.controller import Controller
from controller.errors import HotSetError
from controller.hotset import follower as follower_module
from controller.hotset.follower import Follower
from controller.hotset.migrate import plan
from controller.hotset.placement import choose_rows, in_slots
from controller.hotset.quotas import lane_room
from controller.hotset.rules import run_rule
from controller.hotset.selection import HotSetChange, Rates, RuleChoice, SwapRule, TopKRule, choose
from controller.tables import HotParam
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import LANES, lanes_of_dim
from foundation.protocol.rows import RowRange, RowRanges, banks_of_row
from tests.harness.counting_switch import CountingSwitch
from tests.harness.livenet import JOB, LiveNet, live
from tests.unit.controller.test_follow_live import changes, hot, next_period
from tests.unit.controller.test_live import check_sums

SLOTS = 6
"""Slots of each bank of a small switch."""
ROOM = np.full(LANES, SLOTS, np.int64)
NO_OTHERS = np.zeros((LANES, SLOTS), np.bool_)
MIXED = (RowRange(0, 1), RowRange(300, 16), RowRange(400, 64), RowRange(430, 128))
N_KEYS = 440


def rates_of(rates: dict[int, float]) -> Rates:
    keys = sorted(rates)
    return Rates(np.array(keys, np.uint64), np.array([rates[key] for key in keys], np.float64))


def moved(rows: Sequence[HotParam], job: int, change: HotSetChange, ranges: RowRanges) -> list[HotParam]:
    """Return the rows of a small switch after a change, as the controller's plan has them."""
    wanted = change.apply_to([row.key for row in rows if row.job == job])
    moves = plan(rows, job, wanted, offload=True, slots=SLOTS, ranges=ranges, slot_of_key=change.slots)
    leaving = {move.param for move in moves.leaving}
    after = [row for row in rows if row not in leaving] + [move.param for move in moves.arriving]
    taken = [(bank, row.slot) for row in after for bank in row.banks]
    assert len(set(taken)) == len(taken), "two rows share registers"
    assert {row.key for row in after if row.job == job} == set(wanted)
    return after


@settings(max_examples=80)
@given(
    dim=st.sampled_from([1, 4, 16, 64]),
    seed=st.integers(0, 2**32 - 1),
    n_hot=st.integers(0, 120),
    room=st.integers(0, SLOTS),
    top_k=st.integers(1, 150),
    max_swaps=st.integers(0, 40),
)
def test_rows_of_one_dim_are_chosen_alike_with_and_without_slots(
    dim: int, seed: int, n_hot: int, room: int, top_k: int, max_swaps: int
) -> None:
    """`choose`, which counts slots only, is the second implementation."""
    random, ranges = np.random.default_rng(seed), (RowRange(0, dim),)
    keys = random.choice(10_000, 300, replace=False).tolist()
    rates = rates_of(dict(zip(keys, random.permutation(np.geomspace(1, 1000, 300)).tolist(), strict=True)))
    room_of_lane = [SLOTS] * lanes_of_dim(dim)
    hot_keys = []
    for key in keys[:n_hot]:
        if room_of_lane[lane := lane_of(key, lanes_of_dim(dim))]:
            room_of_lane[lane] -= 1
            hot_keys.append(key)
    rows = moved([], 1, HotSetChange((), tuple(hot_keys), ()), ranges)
    rule, bank_room = SwapRule(top_k, max_swaps=max_swaps), np.full(LANES, room, np.int64)
    expected = choose(rates, np.array(hot_keys, np.uint64), rule, lane_room(bank_room, dim).tolist(), dim)
    change = choose_rows(rates, rows, rule, ranges, bank_room, NO_OTHERS)
    assert (change.swaps, change.filling, change.surplus) == (
        expected.swaps, expected.filling, expected.surplus,
    )  # fmt: skip
    moved(rows, 1, change, ranges)


def total_rate(rates: Rates, rows: Sequence[HotParam]) -> float:
    return float(rates.lookup(np.array([row.key for row in rows], np.uint64)).sum())


def densest_first(rates: Rates, slots: int) -> float:
    """Return an upper bound: rates of rows that fill all banks, by rate for each slot, the last in part."""
    dims = [next(each.dim for each in reversed(MIXED) if each.first <= key) for key in rates.keys.tolist()]
    banks = np.array([banks_of_row(dim) for dim in dims])
    order = np.argsort(-rates.rates / banks)
    before = np.cumsum(banks[order]) - banks[order]
    parts = np.clip((slots - before) / banks[order], 0, 1)
    return float((rates.rates[order] * parts).sum())


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), top_k=st.sampled_from([40, 500]))
def test_rows_of_several_dims_follow_drift_without_sharing_a_register(seed: int, top_k: int) -> None:
    random, rule = np.random.default_rng(seed), SwapRule(top_k)
    rows: list[HotParam] = []
    for _ in range(3):  # tables become hot and cold
        table_rates = np.repeat(
            random.uniform(10, 500, len(MIXED)), np.diff([*(r.first for r in MIXED), N_KEYS])
        )
        values = table_rates * random.permutation(np.geomspace(0.05, 20, N_KEYS))
        rates = rates_of(dict(enumerate(values.tolist())))
        previous = -1.0
        for _ in range(6):
            change = choose_rows(rates, rows, rule, MIXED, ROOM, NO_OTHERS)
            rows = moved(rows, 1, change, MIXED)
            assert len(rows) <= top_k and total_rate(rates, rows) >= previous
            previous = total_rate(rates, rows)
            if not change:
                break
        assert not choose_rows(rates, rows, rule, MIXED, ROOM, NO_OTHERS), "it does not settle"
        if top_k >= N_KEYS:
            # The lowest of 753 phases had 42 % of the bound.
            assert total_rate(rates, rows) > densest_first(rates, SLOTS * LANES) / 3


def row(key: int, slot: int, ranges: RowRanges, job: int = 1) -> HotParam:
    [param] = plan([], job, [key], offload=True, slots=SLOTS, ranges=ranges, slot_of_key={key: slot}).arriving
    return param.param


def keys_in_bank(bank: int, n: int) -> list[int]:
    return [key for key in range(300) if lane_of(key) == bank][:n]


def test_a_wide_row_replaces_the_rows_of_one_slot_whose_rates_are_lowest_together() -> None:
    wide = next(key for key in range(400, 430) if lane_of(key, lanes_of_dim(64)) == 0)  # banks 0 to 15
    narrow = {bank: keys_in_bank(bank, SLOTS) for bank in range(3)}
    rows = [row(key, slot, MIXED) for keys in narrow.values() for slot, key in enumerate(keys)]
    rates = {each.key: 100.0 + each.slot for each in rows} | {narrow[1][4]: 10.0, narrow[2][3]: 1.0}
    # Together: slot 4 has 104 + 10 + 104, slot 3 has 103 + 103 + 1, slot 0 has 300, ...
    change = choose_rows(rates_of({**rates, wide: 1_000.0}), rows, SwapRule(60), MIXED, ROOM, NO_OTHERS)
    assert change.slots == {wide: 3} and change.arriving == [wide]
    assert set(change.leaving) == {narrow[0][3], narrow[1][3], narrow[2][3]}
    for rate, moves in [(1.3 * 207, True), (1.2 * 207, False)]:  # the margin is 1.25
        change = choose_rows(rates_of({**rates, wide: rate}), rows, SwapRule(60), MIXED, ROOM, NO_OTHERS)
        assert bool(change) is moves


def test_a_narrow_row_replaces_a_wide_row_only_if_hotter_than_the_whole_wide_row() -> None:
    wide = [key for key in range(400, 430) if lane_of(key, lanes_of_dim(64)) == 0][:SLOTS]
    rows = [row(key, slot, MIXED) for slot, key in enumerate(wide)]
    [narrow] = keys_in_bank(3, 1)
    rates = {key: 160.0 + k for k, key in enumerate(wide)}
    for rate, moves in [(220.0, True), (150.0, False)]:  # a sixteenth of 160 is less than both
        change = choose_rows(rates_of({**rates, narrow: rate}), rows, SwapRule(9), MIXED, ROOM, NO_OTHERS)
        assert change.leaving == ([wide[0]] if moves else [])
        assert change.slots == ({narrow: 0} if moves else {})
    # Beside a wide row of a rate of 300, the narrow rows of other slots are the cheaper ones.
    *others, narrow = keys_in_bank(3, SLOTS)
    rows = [row(wide[0], 0, MIXED), *(row(key, slot, MIXED) for slot, key in enumerate(others, 1))]
    rates = {wide[0]: 300.0, **{key: 100.0 + k for k, key in enumerate(others)}}
    change = choose_rows(rates_of({**rates, narrow: 250.0}), rows, SwapRule(9), MIXED, ROOM, NO_OTHERS)
    assert change.leaving == [others[0]] and change.slots == {narrow: 1}


def test_free_slots_with_different_numbers_hold_no_wide_row() -> None:
    """By numbers of slots the row would fit: the plan refuses it, and so it must not be chosen."""
    wide = next(key for key in range(400, 430) if lane_of(key, lanes_of_dim(64)) == 0)
    others = NO_OTHERS.copy()
    others[0, 1:], others[1, :-1] = True, True  # bank 0 has slot 0 free, bank 1 the last one
    rates = rates_of({wide: 1_000.0})
    assert not choose_rows(rates, [], SwapRule(9), MIXED, ROOM, others)
    rows = [
        HotParam(2, 10_000 + SLOTS * bank + slot, bank, slot, KEY_STATE)
        for bank in range(2)
        for slot in np.flatnonzero(others[bank]).tolist()
    ]
    with pytest.raises(HotSetError):
        plan(rows, 1, [wide], offload=True, slots=SLOTS, ranges=MIXED)
    choice = in_slots(RuleChoice(np.array([wide], np.uint64), np.empty(0, np.uint64), MIXED), [], others)
    assert not choice.choose(ROOM)


KEY_STATE = row(0, 0, MIXED).state


@pytest.mark.parametrize("rule", ["window", "top-k"])
def test_jobs_of_different_dims_share_a_full_switch(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job changes its set in the same periods; a slot that two jobs took would fail their plan."""
    for name, value in {"SLOTS": SLOTS, "ALL_SLOTS": ROOM, "CAPACITY": SLOTS * LANES}.items():
        monkeypatch.setattr(follower_module, name, value)
    monkeypatch.setattr("controller.hotset.placement.ALL_SLOTS", ROOM)
    monkeypatch.setattr("controller.hotset.selection.ALL_SLOTS", ROOM)
    ranges = {1: MIXED, 2: (RowRange(0, 16),), 3: (RowRange(0, 1),)}

    async def follow() -> None:
        net = CountingSwitch(*ranges, slots=SLOTS)
        net.ranges = ranges
        top_k = {1: 30, 2: 24, 3: 150}
        rules = {
            job: SwapRule(k) if rule == "window" else run_rule(rule, TopKRule, k) for job, k in top_k.items()
        }
        following = Follower(cast(Controller, net), rules)
        random, arrived = np.random.default_rng(5), 0
        for period in range(10):
            shift = 37 * (period // 4)  # popular keys change twice
            for job in ranges:
                for key, times in enumerate(np.geomspace(400, 1, 150).astype(int).tolist()):
                    net.update(job, (key * 11 + shift) % N_KEYS, times + int(random.integers(3)))
            arrived += sum(each.keys_in for each in await following.period() if period)
            taken = [(bank, each.slot) for each in net.params.values() for bank in each.banks]
            assert len(set(taken)) == len(taken)
        assert arrived > 50 and all(net.hot(job) for job in ranges)

    asyncio.run(follow())


DRIFT = (
    [*range(0, 8), *range(100, 108), *range(200, 204)],
    [*range(50, 58), *range(150, 158), *range(204, 208)],
)
"""Keys that workers favour at first, and later: of each dim in both."""


@live(favours=DRIFT[0], ranges=(RowRange(0, 1), RowRange(100, 16), RowRange(200, 64)))
async def test_a_job_of_three_dims_follows_under_load(net: LiveNet) -> None:
    async def drift(net: LiveNet) -> None:
        async with Controller(net.address) as controller:
            following = Follower(controller, {JOB: SwapRule(20)})
            for keys in DRIFT:
                net.favour(keys)
                settled = False
                for _ in range(60):  # as many as it takes: a short period sees few updates of a key
                    before = [load.operations for load in net.loads]
                    period = await next_period(following)
                    while any(load.operations <= n + 20 for load, n in zip(net.loads, before, strict=True)):
                        await asyncio.sleep(0.001)
                    # A wide row can lack room in banks of two cold rows, neither of which alone gives it.
                    settled = len(set(keys) - await hot(net)) <= 2 and changes(period)[2] == 20
                    if settled:
                        break
                assert settled

    await net.work_while(drift(net))
    await check_sums(net)
