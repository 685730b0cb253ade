"""Trainings in networks whose switches have copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hotline_answers import network_training
from hotline_answers.networks import Placement, PlacementPoint, config_at
from hotline_simulator.config import SimulationConfig
from hotline_simulator.experiment import TemporaryRun, temporary_run


def small_config_at(point: PlacementPoint) -> SimulationConfig:
    shape = {"parameters": 2_000, "hot_parameters": 100, "keys_per_step": 20}
    config = config_at(point)
    return config.model_copy(
        update={
            "workers": 4, "servers": 2, "leaves": 2, "top_k": 100, "block_ms": 60, "discard_ms": 10,
            "workload": config.workload.model_copy(update=shape),
        }
    )  # fmt: skip


@pytest.mark.parametrize("placement", network_training.PLACEMENTS)
def test_a_training_with_copies_has_losses_and_ages(
    placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[TemporaryRun] = []

    @contextmanager
    def noted(*arguments: Any) -> Iterator[TemporaryRun]:
        with temporary_run(*arguments) as run:
            runs.append(run)
            yield run

    monkeypatch.setattr(network_training, "config_at", small_config_at)
    monkeypatch.setattr(network_training, "temporary_run", noted)
    result = network_training.train(placement)
    [run] = runs
    ages, losses = run.record.staleness["collect"], run.summary.learning["collect"]
    assert result == (
        losses.reference, losses.value, ages.p50_ms, ages.p99_ms, ages.late / ages.copies
    )  # fmt: skip
    # The loss without a hot set is that of the baseline's blocks.
    without = [block for block in run.record.blocks if block.arm == "collect-baseline" and block.loss]
    mean = sum(block.loss or 0 for block in without) / len(without)
    assert result.loss_without == pytest.approx(mean, rel=0.02)
    assert 1 < result.p50_ms <= result.p99_ms < 100 and 0 <= result.late < 1
