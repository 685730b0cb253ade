"""The replay of the window policy predicts what `hotline follow` serves of a drifting log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from controller.controller import Controller
from controller.hotset.follower import Follower
from controller.hotset.selection import Rule
from controller.tables import HotParam, State
from foundation.logs.access.block import ReadOptions
from foundation.protocol.hashing import lane_of
from hosts.workload.generator import Shape
from studies.policies.generated import LogSpec, write_parts
from studies.policies.ingest import prepare
from studies.policies.log import Log
from studies.policies.replay import replay
from studies.policies.rules.window import WINDOW

TOP_K, PERIOD, POINTS = 400, 50, 0.03


class Network:
    """Servers and a switch that count updates, as a controller sees them; keys move at once."""

    def __init__(self) -> None:
        self.hot: dict[int, HotParam] = {}
        self.at_servers, self.in_switch = Counter[int](), Counter[int]()

    def update(self, key: int) -> bool:
        (self.in_switch if key in self.hot else self.at_servers)[key] += 1
        return key in self.hot

    async def job(self, job: int) -> Any:
        return SimpleNamespace(offload=True)

    async def entries(self) -> list[HotParam]:
        return list(self.hot.values())

    async def busiest(self, job: int, maximum: int) -> Any:
        keys, counts = zip(*self.at_servers.most_common(maximum), strict=True)
        total, self.at_servers = self.at_servers.total(), Counter()
        return [(np.array([0, *keys], np.uint64), np.array([total, *counts], np.int64))]

    async def pushes(self, entries: Sequence[HotParam]) -> Any:
        return [self.in_switch[entry.key] for entry in entries]

    async def load(self, job: int, wanted: Sequence[int]) -> Any:
        arriving = [key for key in wanted if key not in self.hot]
        slots = {key: HotParam(job, key, lane_of(key), 0, State.HOT) for key in wanted}
        self.hot = slots
        return SimpleNamespace(arriving=[SimpleNamespace(param=slots[key]) for key in arriving])


async def followed(log: Log) -> list[float]:
    """Share of the updates that hit in each period of the scored part."""
    net, shares = Network(), list[float]()
    follower = Follower(cast(Controller, net), 4, Rule(TOP_K))
    for first in range(0, log.steps, PERIOD):
        keys = log.keys[log.accesses[log.starts[first] : log.starts[first + PERIOD]]].tolist()
        hits = [net.update(key) for key in keys]
        if first >= log.training_steps:
            shares.append(float(np.mean(hits)))
        await follower.period()
    return shares


@pytest.mark.parametrize("half_life", [None, 1_000.0, 300.0])
async def test_a_window_is_what_follow_does(tmp_path: Path, half_life: float | None) -> None:
    shape = Shape("small", 20_000, TOP_K, 0.5, 200, 4)
    parts = write_parts(LogSpec(shape, 1_000, half_life=half_life), tmp_path, lambda done, total: None)
    log = prepare(parts, tmp_path, 0.5, ReadOptions(), lambda done, total: None)
    done = replay(log, WINDOW, (TOP_K,), PERIOD)
    counts = done.hits[0, :, 0], done.accesses[:, 0]
    hits, accesses = (of_bins.reshape(10, -1).sum(axis=1) for of_bins in counts)
    shares = hits / accesses
    assert shares == pytest.approx(await followed(log), abs=POINTS)
    assert 0.2 < shares.mean() < 0.55
