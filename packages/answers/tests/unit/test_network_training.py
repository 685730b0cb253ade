"""Trainings in networks whose switches have copies."""

from __future__ import annotations

import pytest

from hotline_answers import network_training
from hotline_answers.networks import Placement, PlacementPoint, config_at
from hotline_simulator.config import SimulationConfig


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
    monkeypatch.setattr(network_training, "config_at", small_config_at)
    result = network_training.train(placement)
    assert 0 < result.loss < 1 and 0 < result.loss_without < 1
    assert abs(result.loss / result.loss_without - 1) < 0.1
    assert 1 < result.p50_ms <= result.p99_ms < 100 and 0 <= result.late < 1
