"""The replay of the window policy predicts what `hotline follow` serves of a drifting log."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from controller.controller import Controller
from controller.hotset.follower import Follower
from controller.hotset.selection import SwapRule
from foundation.logs.access.block import ReadOptions
from hosts.workload.generator import Shape
from hotline_policies.generated import LogSpec, write_parts
from hotline_policies.log import PolicyLog, prepare
from hotline_policies.replay import replay
from hotline_policies.rules.selected import WINDOW_POLICY
from tests.harness.counting_switch import CountingSwitch

JOB, TOP_K, PERIOD, POINTS = 4, 400, 50, 0.03


async def followed(log: PolicyLog) -> list[float]:
    """Share of the updates that hit in each period of the scored part."""
    net, shares = CountingSwitch(JOB), list[float]()
    follower = Follower(cast(Controller, net), {JOB: SwapRule(TOP_K)})
    for first in range(0, log.steps, PERIOD):
        keys = log.keys[log.accesses[log.starts[first] : log.starts[first + PERIOD]]].tolist()
        hits = [net.update(JOB, key) for key in keys]
        if first >= log.training_steps:
            shares.append(float(np.mean(hits)))
        await follower.period()
    return shares


@pytest.mark.parametrize("half_life", [None, 1_000.0, 300.0])
async def test_the_replayed_window_policy_predicts_the_hit_shares_of_follow(
    tmp_path: Path, half_life: float | None
) -> None:
    shape = Shape("small", 20_000, TOP_K, 0.5, 200, 4)
    parts = write_parts(LogSpec(shape, 1_000, half_life=half_life), tmp_path, lambda done, total: None)
    log = prepare(parts, tmp_path, 0.5, ReadOptions(), lambda done, total: None)
    done = replay(log, WINDOW_POLICY, (TOP_K,), PERIOD)
    counts = done.hits[0, :, 0], done.accesses[:, 0]
    hits, accesses = (of_bins.reshape(10, -1).sum(axis=1) for of_bins in counts)
    shares = hits / accesses
    assert shares == pytest.approx(await followed(log), abs=POINTS)
    assert 0.2 < shares.mean() < 0.55
