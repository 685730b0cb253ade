"""The plan of the measured phase, played without any traffic."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis.record import RunRecord, ServerUse
from logs.columns import ARMS
from protocol.arms import JOBS, Arm
from topologies.config import Config
from topologies.phases.measure import measure
from topologies.progress import Reporter
from topologies.session import Ran, Session

CAPACITY = 400.0
WORKERS = 4


class PlayedSession(Session):
    """Records what would be run; each run costs every server something."""

    def __init__(self, config: Config, behind_ns: int = 0) -> None:
        record = RunRecord(
            target="softswitch",
            config={},
            machine={},
            versions={},
            placement={},
            seeds={},
            jobs=JOBS,
        )
        reporter = Reporter(Console(quiet=True))
        super().__init__(config, Path("run"), None, [], [], record, reporter)  # type: ignore[arg-type]  # no network
        self.workers = [None] * WORKERS  # type: ignore[list-item]  # only their number matters
        self.played: list[dict[str, Any]] = []
        self.behind_ns = behind_ns
        self.use: dict[str, ServerUse] = {arm: ServerUse() for arm in JOBS}

    async def run_steps(self, arm: Arm, first_step: int, steps: int, **settings: Any) -> list[Ran]:
        self.played.append({"arm": arm.name, "first_step": first_step, "steps": steps, **settings})
        before = self.use[arm.name]
        self.use[arm.name] = ServerUse(packets=before.packets + 100, proc_cpu_ns=before.proc_cpu_ns + 1000)
        ran = Ran(steps=steps, behind_ns=self.behind_ns, cpu_s=0.1, loss=0.5)
        return [ran] * WORKERS

    async def server_use(self) -> dict[str, ServerUse]:
        return dict(self.use)

    def run_queues_ns(self) -> dict[str, int]:
        return {"worker-1": 5_000_000 * len(self.played)}


@dataclass(frozen=True)
class Played:
    session: PlayedSession
    by_round: dict[int, list[dict[str, Any]]]


def play(config: Config, behind_ns: int = 0) -> Played:
    session = PlayedSession(config, behind_ns)
    asyncio.run(measure(session, CAPACITY))
    by_round = defaultdict(list)
    for block in session.played:
        by_round[block["round_number"]].append(block)
    return Played(session, by_round)


def test_every_round_has_every_arm_at_every_load_once_in_changing_order() -> None:
    played = play(Config(rounds=6))
    orders = [[(block["load"], block["arm"]) for block in blocks] for blocks in played.by_round.values()]
    every = {(load, arm) for load in (0.5, 0.8) for arm in ARMS}
    assert len(orders) == 6
    assert all(set(order) == every and len(order) == len(every) for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_the_order_follows_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        return [block["arm"] for block in play(Config(rounds=2, seed=seed)).session.played]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_arms_share_steps_and_nothing_else_does() -> None:
    steps: dict[tuple[int, float], set[tuple[int, int]]] = defaultdict(set)
    offsets: dict[tuple[int, float], set[tuple[int, ...]]] = defaultdict(set)
    for block in play(Config(rounds=3)).session.played:
        steps[block["round_number"], block["load"]].add((block["first_step"], block["steps"]))
        offsets[block["round_number"], block["load"]].add(block["offsets_ns"])
        assert len(block["offsets_ns"]) == WORKERS
        assert all(0 <= offset < block["period_ns"] for offset in block["offsets_ns"])
    assert all(len(each) == 1 for each in steps.values())
    assert all(len(each) == 1 for each in offsets.values())
    assert len(set.union(*offsets.values())) == len(offsets)
    used = [step for each in steps.values() for first, n in each for step in range(first, first + n)]
    assert len(used) == len(set(used))


def test_blocks_are_paced_at_their_load_for_their_time() -> None:
    for block in play(Config(rounds=1)).session.played:
        assert block["period_ns"] == round(1e9 * WORKERS / (block["load"] * CAPACITY))
        assert block["steps"] * block["period_ns"] == pytest.approx(550e6, rel=0.05)


def test_a_block_takes_its_own_share_of_counters_that_go_on() -> None:
    for block in play(Config(rounds=2)).session.record.blocks:
        assert (block.servers.packets, block.servers.proc_cpu_ns) == (100, 1000)
        assert block.run_queue_ms == {"worker-1": 5.0}


@pytest.mark.parametrize(("behind_ns", "fell_behind"), [(11_000_000, False), (21_000_000, True)])
def test_a_block_fell_behind_when_it_was_late_by_a_period(behind_ns: int, fell_behind: bool) -> None:
    blocks = play(Config(rounds=1, loads=(0.5,)), behind_ns).session.record.blocks
    assert [block.period_ns for block in blocks] == [20_000_000] * len(ARMS)
    assert all(block.fell_behind is fell_behind for block in blocks)
