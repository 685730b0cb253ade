"""What a run trains with, and what its record says of it."""

from __future__ import annotations

import logging
from dataclasses import astuple
from pathlib import Path

import pytest

from hosts.model.hyperparameters import Hyperparameters
from hosts.workload import libsvm, replay
from topologies.config import Config
from topologies.phases.workload import choose_training, describe


def test_learning_rate_and_scale_are_chosen_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "set").write_text("1 7:2\n0 7:2\n")
    trace = libsvm.load(tmp_path / "set", 1, 1)
    with caplog.at_level(logging.INFO):
        training = choose_training(Config(), trace)
    assert training is not None and astuple(training) == (pytest.approx(1.0), 2.0**21)
    assert caplog.messages == ["learning rate 1, chosen from the data; scale 2097152, chosen from the data"]
    record = describe(trace, training)
    assert (record["learning_rate"], record["scale"]) == (pytest.approx(1.0), 2.0**21)
    assert record["chance_loss"] == pytest.approx(0.6931, abs=1e-4)


def test_what_is_configured_is_taken_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "set").write_text("1 7:2\n0 7:2\n")
    trace = libsvm.load(tmp_path / "set", 1, 1)
    with caplog.at_level(logging.INFO):
        training = choose_training(Config(learning_rate=0.1, scale=1000), trace)
    assert training == Hyperparameters(0.1, 1000)
    assert caplog.messages == ["learning rate 0.1, as configured; scale 1000, as configured"]


def test_a_log_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("iteration,worker,key\n1,1,5\n")
    trace = replay.load(tmp_path / "log.csv", 1)
    assert choose_training(Config(), trace) is None
    assert "learning_rate" not in describe(trace, None)
