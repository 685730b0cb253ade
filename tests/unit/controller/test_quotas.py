"""Quotas of hot keys: the division of slots against a plain model, and jobs that are followed together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.controller import Controller
from controller.errors import QuotaError
from controller.hotset import follower, selection
from controller.hotset.follower import Follower
from controller.hotset.quotas import (
    Slots,
    check_quota,
    divide,
    remaining_keys,
    round_quota,
    slots_of,
)
from controller.hotset.selection import SwapRule
from controller.sizes import CAPACITY
from controller.tables import HotParam, KeyState
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import LANES
from switch_harness.effort import examples
from tests.harness.counting_switch import CountingSwitch

SLOTS = 4
"""Slots of a lane of a small switch: 128 keys."""
JOBS = (1, 2, 3)
BUSY = 50
"""Updates of a wanted key in a period."""

slots_by_lane = st.lists(st.integers(0, 2 * SLOTS), min_size=LANES, max_size=LANES).map(np.array)
needs = st.dictionaries(st.sampled_from(JOBS), slots_by_lane)


@st.composite
def shared(draw: st.DrawFn) -> dict[int, int]:
    """Draw quotas that fit into the switch together, in slots of a lane."""
    free, drawn = SLOTS, {}
    for job in draw(st.permutations(JOBS)):
        drawn[job] = draw(st.integers(0, free))
        free -= drawn[job]
    return drawn


def plain_division(
    wanted: Mapping[int, int], held: Mapping[int, int], quota: Mapping[int, int]
) -> dict[int, int]:
    """Divide one lane slot by slot: each goes to the job that has got fewest of its kind."""
    given = Counter[int]()
    within = {job: min(quota.get(job, 0), need) for job, need in {**held, **wanted}.items()}
    for goals in (within, held, wanted):
        got = Counter[int]()
        while given.total() < SLOTS and (asking := [job for job in goals if given[job] < goals[job]]):
            first = min(asking, key=lambda job: (got[job], job))
            got[first] += 1
            given[first] += 1
    return {job: given[job] for job in within}


@settings(max_examples=examples(400))
@given(needs, needs, shared())
def test_the_slots_of_a_lane_are_divided_by_quotas_and_needs(
    wanted: dict[int, Slots], held: dict[int, Slots], of_lane: dict[int, int]
) -> None:
    held = {job: slots for job, slots in held.items() if job not in wanted}
    quota = {job: slots * LANES for job, slots in of_lane.items()}
    given = divide(wanted, held, quota, np.full(LANES, SLOTS))
    for lane in range(LANES):
        wants, holds, got = (
            {job: int(slots[lane]) for job, slots in each.items()} for each in (wanted, held, given)
        )
        all_needs = holds | wants
        assert got == plain_division(wants, holds, of_lane)
        assert sum(got.values()) == min(SLOTS, sum(all_needs.values())), "no slot is idle in vain"
        assert all(got[job] >= min(of_lane[job], need) for job, need in all_needs.items())


def test_slots_beyond_the_quotas_are_shared_equally() -> None:
    of_lane = np.full(LANES, 12)
    wanted = {1: np.full(LANES, 20), 2: np.full(LANES, 20), 3: np.full(LANES, 1)}
    given = divide(wanted, {}, {1: 6 * LANES}, of_lane)
    assert {job: set(slots.tolist()) for job, slots in given.items()} == {1: {9}, 2: {2}, 3: {1}}


keys = st.lists(st.integers(0, 600), unique=True, max_size=150)


@settings(max_examples=examples(400))
@given(st.dictionaries(st.sampled_from([2, 3, 9]), keys), keys, shared())
@example({2: [12, 300], 9: [12, 300]}, [12], {1: 1, 2: 2, 3: 0})  # too few slots for all quotas
def test_other_jobs_give_back_only_the_slots_that_a_load_needs_of_its_quota(
    loaded: dict[int, list[int]], wanted: list[int], of_lane: dict[int, int]
) -> None:
    """Job 9 is not known to the switch."""
    free = [SLOTS] * LANES
    entries = []
    for job, of_job in loaded.items():
        for key in of_job:
            if free[lane_of(key)]:
                free[lane_of(key)] -= 1
                entries.append(HotParam(job, key, lane_of(key), free[lane_of(key)], KeyState.HOT))
    quota = {job: slots * LANES for job, slots in of_lane.items()}
    kept = remaining_keys(entries, 1, wanted, quota, SLOTS)
    lanes = [
        {job: [entry for entry in entries if (entry.job, entry.lane) == (job, lane)] for job in (2, 3, 9)}
        for lane in range(LANES)
    ]
    wants = slots_of(wanted)
    for lane, held in enumerate(lanes):
        missing = min(wants[lane], of_lane[1]) - free[lane]
        borrowed = sum(max(0, len(held[job]) - of_lane[job]) for job in (2, 3))
        returned = 0
        for job in (2, 3):
            stay = kept.get(job, [entry.key for entry in held[job]])
            left = [entry for entry in held[job] if entry.key not in stay]
            assert len(held[job]) - len(left) >= min(of_lane[job], len(held[job]))
            stayed = [entry.slot for entry in held[job] if entry.key in stay]
            assert all(entry.slot > max(stayed, default=-1) for entry in left)
            returned += len(left)
        assert returned == max(0, min(missing, borrowed))


def test_quotas_are_rounded_and_fit() -> None:
    assert [round_quota(keys) for keys in (0, 1, 32, 33, CAPACITY)] == [0, 32, 32, 64, CAPACITY]
    check_quota(1, CAPACITY - 64, {1: CAPACITY, 2: 64})
    text = r"^quota of job 1: expected at most 131,008 keys beside other quotas, got 131,040$"
    with pytest.raises(QuotaError, match=text):
        check_quota(1, CAPACITY - 32, {1: 0, 2: 64})


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[dict[int, int], dict[int, int]]]:
    """Draw quotas in slots of a lane, and how many keys each job wants, for each of some periods."""
    wants = st.fixed_dictionaries(dict.fromkeys(JOBS, st.sampled_from([0, 5, 40, 100, 300])))
    return [(draw(shared()), draw(wants)) for _ in range(draw(st.integers(1, 4)))]


@settings(max_examples=examples(100), deadline=None)
@given(histories(), st.sets(st.sampled_from(JOBS), min_size=1))
def test_jobs_get_the_slots_of_their_changed_quotas_within_a_period(
    history: list[tuple[dict[int, int], dict[int, int]]], followed: set[int]
) -> None:
    """One period after a change no job has more than its quota while another lacks slots of its own."""
    asyncio.run(_follow_history(history, followed))


async def _follow_history(history: list[tuple[dict[int, int], dict[int, int]]], followed: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "CAPACITY", 10_000)
        for module in (follower, selection):
            patch.setattr(module, "ALL_SLOTS", np.full(LANES, SLOTS))
        net = CountingSwitch(*JOBS, slots=SLOTS)
        for job in set(JOBS) - followed:
            await net.load(job, [key for key in range(40) if _rank(key) < 1])
        following = Follower(cast(Controller, net), {job: SwapRule(400) for job in sorted(followed)})
        await following.period()
        for of_lane, wants in history:
            net.quota_of_job = {job: slots * LANES for job, slots in of_lane.items()}
            for job in followed:
                # Rates of what jobs wanted before vanish within one period beside these.
                for key in range(wants[job]):
                    net.update(job, key, BUSY)
            await following.period()
            _check(net, of_lane, wants, followed)


def _rank(key: int) -> int:
    return sum(lane_of(other) == lane_of(key) for other in range(key))


def _check(
    net: CountingSwitch, of_lane: Mapping[int, int], wants: Mapping[int, int], followed: set[int]
) -> None:
    has = {job: slots_of(net.hot(job)) for job in JOBS}
    wanted = {job: slots_of(range(wants[job])) for job in followed}
    for lane in range(LANES):
        used = sum(int(slots[lane]) for slots in has.values())
        assert used <= SLOTS
        for job, slots in wanted.items():
            if has[job][lane] < slots[lane]:
                assert used == SLOTS, "a slot is idle while a job wants it"
                assert has[job][lane] >= of_lane[job], "another job has a slot of this job's quota"
