"""Test the workload of a run and its description in the record."""

from __future__ import annotations

import logging
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from experiment.phases import workload
from experiment.phases.workload import choose_training, describe
from experiment.run_config import Config, WorkloadShape
from foundation.logs.access.block import ReadOptions
from hosts.model.hyperparameters import Hyperparameters
from hosts.workload import data_files


def test_learning_rate_and_scale_are_chosen_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "set").write_text("1 7:2\n0 7:2\n")
    trace = data_files.load_training_set(tmp_path / "set", 1, 1)
    with caplog.at_level(logging.INFO):
        training = choose_training(Config(), trace)
    assert training is not None and astuple(training) == (pytest.approx(1.0), 2.0**21)
    assert caplog.messages == ["learning rate 1, chosen from the data; scale 2097152, chosen from the data"]
    record = describe(trace, training, 1_000)
    assert (record["learning_rate"], record["scale"]) == (pytest.approx(1.0), 2.0**21)
    assert record["chance_loss"] == pytest.approx(0.6931, abs=1e-4)


def test_configured_learning_rate_and_scale_are_used_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "set").write_text("1 7:2\n0 7:2\n")
    trace = data_files.load_training_set(tmp_path / "set", 1, 1)
    with caplog.at_level(logging.INFO):
        training = choose_training(Config(learning_rate=0.1, scale=1000), trace)
    assert training == Hyperparameters(0.1, 1000)
    assert caplog.messages == ["learning rate 0.1, as configured; scale 1000, as configured"]


def test_a_log_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("iteration,worker,key\n1,1,5\n")
    trace = data_files.load_log(tmp_path / "log.csv", 1, ReadOptions())
    assert choose_training(Config(), trace) is None
    assert "learning_rate" not in describe(trace, None, 1_000)


def test_unused_parameters_are_left_out_if_agents_have_no_room_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their keys, steps and samples stay the same."""
    shape = {"parameters": 5_000, "hot_parameters": 500, "hot_share": 0.6, "keys_per_step": 60}
    config = Config(workers=2, trace_steps=10, workload=WorkloadShape.model_validate(shape))
    whole = workload.generate_trace(config, lambda share: None)
    monkeypatch.setattr(workload, "_MAX_FULL_MODEL_SIZE", 4_999)
    touched = workload.generate_trace(config, lambda share: None)
    assert whole.space.sparse is None and touched.space.sparse is not None
    assert len(np.unique(whole.position)) == touched.space.size < 5_000
    for worker, step in ((1, 0), (2, 9)):
        before, after = whole.batch(worker, step), touched.batch(worker, step)
        assert touched.space.keys(after.positions).tolist() == before.positions.tolist()
        assert after.column is not None and before.column is not None
        assert after.column.tolist() == before.column.tolist()
    described = describe(touched, None, 5_000)
    assert (described["parameters"], described["touched"]) == (5_000, touched.space.size)
