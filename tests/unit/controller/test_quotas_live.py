"""Quotas on a switch with two jobs in one process, whose lanes have two slots each."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from controller import controller as controllers
from controller.controller import Controller
from controller.errors import HotSetError, QuotaError
from controller.hotset import follower, migrate, quotas, selection
from controller.hotset.follower import Follower
from controller.hotset.quotas import first_per_lane, slots_of
from controller.hotset.selection import SwapRule
from foundation.protocol.header import LANES
from switch_harness.wording import says, says_in_one_line
from tests.harness.livenet import JOB, KEYS, LiveNet, live
from tests.unit.controller.test_live import check_sums, hotline, status

NOISY, SLOTS = 5, 2
"""The other job, and the slots of a lane."""
FULL = first_per_lane(range(KEYS), np.full(LANES, SLOTS))
"""Keys that fill the switch."""
OWN = first_per_lane(range(100, KEYS), np.full(LANES, 1))
"""Keys that fill half of the switch: the quota of `JOB`."""

DESIGNS = pytest.mark.parametrize("design", ["hotset", "collect"])


@pytest.fixture(autouse=True)
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "plan", partial(migrate.plan, slots=SLOTS))
    monkeypatch.setattr(controllers, "remaining_keys", partial(quotas.remaining_keys, slots=SLOTS))
    for module in (follower, selection):
        monkeypatch.setattr(module, "ALL_SLOTS", np.full(LANES, SLOTS))


async def hot(net: LiveNet, job: int) -> set[int]:
    return {param.key for param in (await status(net)).params if param.job == job}


async def check_all_sums(net: LiveNet) -> None:
    """Move all keys to their servers, and check that these hold the sums of all pushes of both jobs."""
    async with Controller(net.address) as controller:
        for job in net.jobs:
            await controller.load(job, [])
    await check_sums(net)


@DESIGNS
@live(others=(NOISY,))
async def test_a_load_within_a_quota_displaces_keys_of_a_job_without_a_quota(
    net: LiveNet, design: str
) -> None:
    async def change(net: LiveNet) -> None:
        async with Controller(net.address) as controller:
            await controller.set_quota(JOB, len(OWN) - 5)
        async with Controller(net.address) as controller:
            assert await controller.quotas() == {JOB: LANES, NOISY: 0}
            await controller.load(NOISY, FULL)
            text = r"^lane 0 has 2 slots, 1 of them taken by entries that stay"
            with pytest.raises(HotSetError, match=text):
                await controller.load(JOB, FULL)
            assert await hot(net, NOISY) == set(FULL)
            assert (await controller.plan(JOB, OWN)).summary()["collected"] == LANES
            assert (await controller.load(JOB, OWN)).summary()["seeded"] == LANES
            assert await hot(net, JOB) == set(OWN)
            assert await hot(net, NOISY) == set(first_per_lane(FULL, np.full(LANES, 1)))
            # The quota outlives changes of the job's other settings.
            await controller.set_offload(JOB, False)
            await controller.set_proxy(JOB, False)
            assert await controller.quotas() == {JOB: LANES, NOISY: 0}
            with pytest.raises(QuotaError):
                await controller.set_quota(NOISY, 131_072)

    # At the usual pace the workers of two jobs take the time that the controller needs.
    await net.work_while(change(net), pace_s=0.02)
    await check_all_sums(net)


@DESIGNS
@live(others=(NOISY,))
async def test_the_follower_restores_a_quota_within_a_period(net: LiveNet, design: str) -> None:
    async with Controller(net.address) as controller:
        for job in net.jobs:
            await controller.set_quota(job, LANES)
        following = Follower(controller, {JOB: SwapRule(KEYS), NOISY: SwapRule(KEYS)})
        net.favour(FULL, NOISY)
        await net.work(60, NOISY)
        await following.period()
        assert (slots_of(sorted(await hot(net, NOISY))) == SLOTS).all()
        net.favour(OWN, JOB)
        await net.work(30, JOB)
        [own, noisy] = await following.period()
        assert (own.job, own.keys, own.in_switch) == (JOB, LANES, 0)
        assert (noisy.job, noisy.keys_out, noisy.keys) == (NOISY, LANES, LANES)
        assert await hot(net, JOB) == set(OWN)
        await net.work(30, JOB)
        await net.work(60, NOISY)
        [own, noisy] = await following.period()
        assert (own.keys, noisy.keys, own.keys_in + own.keys_out) == (LANES, LANES, 0)
        assert own.share is not None and own.share > 0.9
    await check_all_sums(net)


@DESIGNS
@live(others=(NOISY,))
async def test_the_command_quota_sets_and_prints_quotas(net: LiveNet, design: str) -> None:
    code, output, errors = await hotline(net, "quota", "--job", "3", "--keys", "1000", "--json")
    assert (code, errors) == (0, "")
    jobs = [{"job": JOB, "quota": 1024, "keys": 0}, {"job": NOISY, "quota": 0, "keys": 0}]
    assert json.loads(output) == {"capacity": 131_072, "jobs": jobs}
    code, output, errors = await hotline(net, "quota", "--job", "5", "--share", "0.25")
    assert (code, errors) == (0, "") and says_in_one_line(output.splitlines()[-1], "33,792", "131,072")
    code, output, errors = await hotline(net, "quota")
    assert [line.split() for line in output.splitlines()[1:3]] == [["3", "1024", "0"], ["5", "32768", "0"]]
    assert json.loads((await hotline(net, "status", "--json"))[1])["jobs"][0]["quota"] == 1024
    code, output, errors = await hotline(net, "quota", "--job", "5", "--share", "1")
    text = "Error: quota of job 5: expected at most 130,048 keys beside other quotas, got 131,072\n"
    assert (code, output, errors) == (1, "", text)
    code, output, errors = await hotline(net, "quota", "--job", "9", "--keys", "1")
    assert (code, output, errors) == (1, "", "Error: job 9 is not on the switch; its jobs: 3, 5\n")
    for wrong in (("--job", "3"), ("--keys", "5"), ("--job", "3", "--keys", "5", "--share", "1")):
        code, output, errors = await hotline(net, "quota", *wrong)
        assert code == 2 and says(errors, "--job", "--keys", "--share")
    assert (await hotline(net, "quota", "--job", "3", "--keys", "0"))[0] == 0
    async with Controller(net.address, primary=False) as controller:
        assert await controller.quotas() == {JOB: 0, NOISY: 32_768}
