"""What workers are told, and how long they have for it: by their codec, and by how much it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from experiment.config import Config
from experiment.session import Planned
from foundation.designs.arms import arm
from tests.harness.sessions import real_session
from topologies.running_cluster import measure_empty_rpcs


class Asked:
    """A worker that does at once what it is told, and keeps that and how long it would have had, s."""

    name = "worker-1"

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.patience: list[float] = []

    async def call(self, command: Any, patience: float, on_progress: object = None) -> dict[str, Any]:
        self.told.append(command)
        self.patience.append(patience)
        return {"steps": command.get("steps", 0), "behind_ns": 0, "cpu_s": 0.0, "loss": None}


@pytest.mark.parametrize(
    ("settings", "period_ns", "seconds"),
    [
        ({}, 0, 60 + 8),
        ({"codec": "scapy"}, 0, 60 + 8 * 60),
        ({}, 500_000_000, 60 + 8 * 5),
        ({"codec": "scapy"}, 500_000_000, 60 + 8 * 5),
        ({"faults": {"loss": 0.01}}, 0, 4 * 68),
    ],
)
def test_steps_have_their_time(settings: dict[str, Any], period_ns: int, seconds: float) -> None:
    worker = Asked()
    session = real_session(Config.model_validate(settings), workers=[worker])
    asyncio.run(session.run_steps(Planned(arm("neither"), 0, 8, period_ns)))
    assert worker.patience == [seconds]


def test_a_block_is_told_what_of_it_is_discarded() -> None:
    worker = Asked()
    session = real_session(Config(discard_ms=30), workers=[worker])
    asyncio.run(session.run_steps(Planned(arm("neither"), first_step=100, steps=8, discarded=2)))
    asked = {name: worker.told[0][name] for name in ("first_step", "steps", "discard_ns", "discard_steps")}
    assert asked == {"first_step": 100, "steps": 8, "discard_ns": 30_000_000, "discard_steps": 2}


def test_empty_rpcs_have_time_by_their_number() -> None:
    worker = Asked()
    session = real_session(Config(codec="scapy", empty_rpcs=10_000), workers=[worker])
    asyncio.run(measure_empty_rpcs(session))
    assert worker.patience == [1030]
