"""A hot set follows the keys that workers push to, on a switch in one process."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from controller.client import SwitchClient
from controller.controller import Controller
from controller.errors import HotSetError, NotPrimary, OffloadIsOff, UnknownJob
from controller.hotset.follower import Follower, Period, follow
from controller.hotset.selection import SwapRule
from controller.tables import Change, HotParam, KeyState, Update
from foundation.protocol.hashing import lane_of
from softswitch.pipeline import CounterValue
from switch_harness.wording import mentions
from tests.harness.livenet import JOB, KEYS, LiveNet, live
from tests.unit.controller.test_live import (
    check_sums,
    ended,
    hotline,
    interrupt_move,
    read_line,
    start_hotline,
    states,
)

FIRST, SECOND = range(20), range(100, 120)
"""Keys that workers favour at first, and later."""
RULE = SwapRule(len(FIRST))
LANES_A_PUSH = 12


def updates(net: LiveNet) -> Counter[int]:
    return sum((load.updates for load in net.loads), Counter[int]())


async def hot(net: LiveNet) -> set[int]:
    found = await states(net)
    assert set(found.values()) <= {KeyState.HOT}
    return set(found)


async def next_period(follower: Follower) -> Period:
    [period] = await follower.period()
    return period


def changes(period: Period) -> tuple[int, int, int]:
    return period.keys_in, period.keys_out, period.keys


@live(favours=FIRST)
async def test_a_followed_hot_set_fills_counts_exactly_rests_and_follows_the_keys(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        await net.work(40)
        follower = Follower(controller, {JOB: RULE})
        beginning = await next_period(follower)
        assert (beginning.updates, beginning.in_switch, beginning.share) == (None, None, None)
        assert changes(beginning) == (20, 0, 20) and await hot(net) == set(FIRST)
        for _ in range(3):
            before = updates(net)
            await net.work(40)
            counted = updates(net) - before
            period = await next_period(follower)
            assert period.updates == counted.total() == 2 * 40 * LANES_A_PUSH
            assert period.in_switch == sum(counted[key] for key in FIRST)
            assert period.share is not None and 0.9 < period.share < 1
            assert changes(period) == (0, 0, 20)
        net.favour(SECOND)
        seen = []
        for _ in range(4):
            await net.work(40)
            period = await next_period(follower)
            assert period.updates == 2 * 40 * LANES_A_PUSH
            seen.append(period)
        # At the end of the first most of those that were hot are still as good; of the second none is.
        assert seen[0].keys_in < 5 and seen[0].keys_in + seen[1].keys_in == 20
        assert [changes(period) for period in seen[2:]] == [(0, 0, 20)] * 2
        assert await hot(net) == set(SECOND)
        assert [period.share is not None and period.share > 0.9 for period in seen] == [0, 0, 1, 1]
    await check_sums(net)


@pytest.mark.parametrize(
    ("loss", "drifts"),
    [(0.0, (FIRST, SECOND)), pytest.param(0.05, (FIRST, SECOND, FIRST), marks=pytest.mark.soak)],
    ids=["none lost", "some lost"],
)
@live(favours=FIRST)
async def test_under_load_nothing_is_lost(net: LiveNet, loss: float, drifts: Iterable[range]) -> None:
    async def drift(net: LiveNet) -> None:
        async with Controller(net.address) as controller:
            follower = Follower(controller, {JOB: SwapRule(20, max_swaps=7)})
            for keys in drifts:
                net.favour(keys)
                for _ in range(8):
                    operations = [load.operations for load in net.loads]
                    await next_period(follower)
                    await more_than(net, operations, 20)
                assert await hot(net) == set(keys)

    async def more_than(net: LiveNet, before: list[int], number: int) -> None:
        """Wait until each worker has completed `number` more operations."""
        while any(load.operations <= start + number for load, start in zip(net.loads, before, strict=True)):
            await asyncio.sleep(0.001)

    await net.work_while(drift(net))
    await check_sums(net)


@pytest.mark.soak
@live(favours=FIRST)
async def test_a_hot_set_of_another_size_is_filled_or_loses_its_coldest_keys(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        await controller.load(JOB, range(10, 40))
        await net.work(40)
        larger = Follower(controller, {JOB: SwapRule(40)})
        assert changes(await next_period(larger)) == (10, 0, 40)
        assert await hot(net) == set(range(40))
        await net.work(40)
        smaller = Follower(controller, {JOB: RULE})
        assert changes(await next_period(smaller)) == (0, 0, 40)  # no counts yet
        await net.work(40)
        assert changes(await next_period(smaller)) == (0, 20, 20)
        assert await hot(net) == set(FIRST)
    await check_sums(net)


@pytest.mark.soak
@live(favours=FIRST)
async def test_a_slot_that_changes_hands_does_not_keep_its_count(net: LiveNet) -> None:
    """Pushes to a slot's last key, before the first period, do not count for its next key."""
    async with Controller(net.address) as controller:
        await controller.load(JOB, FIRST)
        await net.work(40)
        await controller.load(JOB, [])
        net.favour(SECOND)
        await net.work(60)
        follower = Follower(controller, {JOB: RULE})
        await next_period(follower)
        assert await hot(net) == set(SECOND)
        before = updates(net)
        await net.work(20)
        counted = updates(net) - before
        period = await next_period(follower)
        assert period.updates == counted.total()
        assert period.in_switch == sum(counted[key] for key in SECOND)
        # Nor after another controller has moved a key there.
        await controller.load(JOB, [*SECOND, *FIRST])
        period = await next_period(follower)
        assert (period.updates, period.in_switch, changes(period)) == (0, 0, (0, 20, 20))


@live(favours=FIRST)
async def test_counters_that_were_reset_count_from_the_reset(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        await controller.load(JOB, FIRST)
        await net.work(40)
        follower = Follower(controller, {JOB: RULE})
        await next_period(follower)
        assert net.pipeline is not None
        for entry in await controller.entries():
            name = f"HotlineIngress.bank_{entry.lane:02d}.pushes"
            net.pipeline.cells.write_counter(name, entry.slot, CounterValue(0, 0))
        before = updates(net)
        await net.work(5)
        counted = updates(net) - before
        assert (await next_period(follower)).in_switch == sum(counted[key] for key in FIRST)


@live(favours=FIRST)
async def test_an_unfinished_move_is_finished_even_if_nothing_is_to_change(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        await controller.load(JOB, FIRST)
        entries = await controller.entries()
    async with SwitchClient(net.address) as switch:
        [entry] = [entry for entry in entries if entry.key == 7]
        await switch.write([Update(Change.MODIFY, replace(entry, state=KeyState.DRAINING))])
    async with Controller(net.address) as controller:
        assert changes(await next_period(Follower(controller, {JOB: RULE}))) == (0, 0, 20)
    assert await hot(net) == set(FIRST)


@live(offload=False, favours=FIRST)
async def test_jobs_that_cannot_be_followed_are_refused(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        with pytest.raises(UnknownJob, match=mentions("job 9", "jobs", 3)):
            await next_period(Follower(controller, {9: RULE}))
        text = "^job 3 has its offload off; `hotline offload on` turns it on$"
        with pytest.raises(OffloadIsOff, match=text):
            await next_period(Follower(controller, {JOB: RULE}))
        await controller.set_offload(JOB, True)
        others = HotParam(8, 5, lane_of(5), 0, KeyState.HOT)
        async with SwitchClient(net.address) as switch:
            await switch.write([Update(Change.INSERT, others)])
    async with Controller(net.address) as controller:
        text = r"^top-k 131072 is too large: the switch has room for 131,071 keys of job 3$"
        with pytest.raises(HotSetError, match=text):
            await next_period(Follower(controller, {JOB: SwapRule(131_072)}))
        await next_period(Follower(controller, {JOB: SwapRule(131_071)}))


async def test_periods_are_even_and_as_many_as_asked_for() -> None:
    class Played(Follower):
        def __init__(self) -> None:
            self.times: list[float] = []

        async def period(self) -> list[Period]:
            self.times.append(asyncio.get_running_loop().time())
            return [Period(JOB, 1, 0, 0, 0, 0, 0.0)]

    played, begun = Played(), asyncio.get_running_loop().time()
    assert len([period async for period in follow(played, 0.05, 3)]) == 4
    # A period that begins late does not delay those after it, and none begins early.
    assert all(time - begun >= number * 0.05 - 1e-6 for number, time in enumerate(played.times))


@live(favours=FIRST)
async def test_following_ends_when_another_controller_takes_over(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        follower = Follower(controller, {JOB: RULE})
        await next_period(follower)
        async with Controller(net.address):
            with pytest.raises(NotPrimary, match=mentions("switch", "controller")):
                await next_period(follower)


FOLLOW = ("follow", "--job", str(JOB), "--top-k", "20")


@live(favours=FIRST)
async def test_the_command_follow_moves_keys_and_reports_each_period(net: LiveNet) -> None:
    await net.work(40)
    code, output, errors = await hotline(net, *FOLLOW, "--period-s", "0.2", "--periods", "2", "--json")
    assert (code, errors) == (0, "")
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["period"] for line in lines] == [0, 1, 2]
    assert [line["keys_in"] for line in lines] == [20, 0, 0]
    assert [line["updates"] for line in lines] == [None, 0, 0]
    assert await hot(net) == set(FIRST)
    code, output, errors = await hotline(net, "follow", "--job", "9", "--top-k", "20")
    assert (code, output, errors) == (1, "", "Error: job 9 is not on the switch; its jobs: 3\n")


@pytest.mark.soak
@live(favours=FIRST)
async def test_ctrl_c_ends_follow_between_periods_and_in_a_move(net: LiveNet) -> None:
    net.favour(range(KEYS))
    await net.work(40)
    everything = ("follow", "--top-k", str(KEYS))
    await interrupt_move(net, *everything, again="follow again")
    process = await start_hotline(net, *everything, "--job", str(JOB), "--period-s", "3600")
    assert (await read_line(process)).startswith("beginning of job 3: ")
    process.send_signal(signal.SIGINT)
    code, _, errors = await ended(process)
    assert (code, errors) == (130, "hotline: interrupted\n")
    assert await hot(net) == set(updates(net))
    await check_sums(net)


@live(favours=FIRST)
async def test_the_command_follow_ends_when_another_controller_takes_over(net: LiveNet) -> None:
    process = await start_hotline(net, *FOLLOW, "--period-s", "0.2")
    await read_line(process)
    async with Controller(net.address):
        code, _, errors = await ended(process)
    text = f"Error: another controller has become primary of switch {net.address}\n"
    assert (code, errors) == (1, text)
