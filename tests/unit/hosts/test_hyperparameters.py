"""The chosen learning rate and scale learn for any scaling of the data, and fit 32 bits."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hosts.model import LogisticRegression
from hosts.model.hyperparameters import Hyperparameters, chance_loss, choose
from hosts.model.logistic import GRADIENT_SCALE, LEARNING_RATE, SCALE, sigmoid
from hosts.workload import data_files
from hosts.workload.generator import R1, generate
from hosts.workload.trace import Trace

WORKERS = 4
FIELDS = 14
FEATURES = 123
SAMPLES = 6000


def adult_like(path: Path, values: np.ndarray) -> Trace:
    """Write rows like a9a's: one feature of each field, a quarter positive; `values` [samples, fields]."""
    rng = np.random.default_rng(1)
    edges = np.linspace(0, FEATURES, FIELDS + 1).astype(int)
    columns = np.empty((SAMPLES, FIELDS), dtype=int)
    for field, (start, stop) in enumerate(pairwise(edges)):
        frequency = 1 / np.arange(1, stop - start + 1) ** 1.5
        columns[:, field] = start + rng.choice(stop - start, SAMPLES, p=frequency / frequency.sum())
    logit = rng.standard_normal(FEATURES)[columns].sum(axis=1)
    label = rng.random(SAMPLES) < sigmoid(1.5 * (logit - np.quantile(logit, 0.76)))
    lines = [
        " ".join([f"{int(y)}", *(f"{c + 1}:{v:.9g}" for c, v in zip(row, x, strict=True))])
        for y, row, x in zip(label, columns.tolist(), values.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines))
    return data_files.load_training_set(path, WORKERS, samples_per_step=150)


def binary(value: float) -> np.ndarray:
    return np.full((SAMPLES, FIELDS), value)


def unit_norm() -> np.ndarray:
    """Return values as of TF-IDF."""
    values = 0.1 + np.random.default_rng(2).exponential(size=(SAMPLES, FIELDS))
    normed: np.ndarray = values / np.linalg.norm(values, axis=1, keepdims=True)
    return normed


def losses(trace: Trace, chosen: Hyperparameters, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Train asynchronously: a worker's deltas arrive one step later. Return losses and values."""
    model = LogisticRegression(chosen.scale, chosen.learning_rate)
    values = np.zeros(trace.space.size, dtype=np.uint32)
    pending: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    found = []
    for step in range(steps):
        for worker in range(1, trace.workers + 1):
            if worker in pending:
                positions, deltas = pending[worker]
                values[positions] += deltas
            batch = trace.batch(worker, step)
            deltas, loss = model.step(batch, values[batch.positions])
            pending[worker] = batch.positions, deltas
            found.append(loss)
    return np.array(found), values.view(np.int32)


@pytest.mark.parametrize(
    "values",
    [binary(1), binary(300), binary(1e-3), unit_norm()],
    ids=["binary", "hundreds", "tiny", "unit norm"],
)
def test_training_beats_chance_on_any_scaling(tmp_path: Path, values: np.ndarray) -> None:
    trace = adult_like(tmp_path / "set", values)
    assert trace.samples is not None
    chosen = choose(trace)
    found, weights = losses(trace, chosen, 300)
    # Not one mini-batch on the way is far off, as with a step that is too long.
    assert found.max() < 1.2
    assert found[-100:].mean() < chance_loss(trace.samples) - 0.1
    assert np.abs(weights.astype(np.int64)).max() < 2**28


def test_one_outlier_does_not_stop_learning(tmp_path: Path) -> None:
    values = binary(1)
    values[SAMPLES // 2] = 100
    trace = adult_like(tmp_path / "set", values)
    assert trace.samples is not None
    found, _ = losses(trace, choose(trace), 300)
    assert found.max() < 1.2
    assert found[-100:].mean() < chance_loss(trace.samples) - 0.05


def test_the_features_unit_changes_nothing(tmp_path: Path) -> None:
    trace = adult_like(tmp_path / "set", binary(1))
    larger = adult_like(tmp_path / "larger", binary(256))
    chosen = choose(larger)
    assert chosen.scale == 256 * SCALE
    rate = choose(trace).learning_rate
    assert rate is not None and chosen.learning_rate == pytest.approx(rate / 256**2)
    optimised = choose(larger, servers_optimise=True)
    assert (optimised.learning_rate, optimised.scale) == (None, GRADIENT_SCALE / 256)
    assert losses(larger, chosen, 20)[0] == pytest.approx(losses(trace, choose(trace), 20)[0])


def test_the_learning_rate_follows_from_the_largest_curvature_for_all_workers(tmp_path: Path) -> None:
    """With one feature of value 2 in every sample the Hessian is at most 2² / 4."""
    lines = [f"{y} 7:2" for y in (0, 1) * 40]
    (tmp_path / "set").write_text("\n".join(lines))
    for workers in (1, 4):
        chosen = choose(data_files.load_training_set(tmp_path / "set", workers, samples_per_step=10))
        assert astuple(chosen) == (pytest.approx(1 / workers), 2 * SCALE)


def test_a_given_learning_rate_or_scale_is_used(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("1 7:2\n0 7:2\n")
    trace = data_files.load_training_set(tmp_path / "set", 1, 1)
    assert choose(trace, learning_rate=0.1) == Hyperparameters(0.1, 2 * SCALE)
    assert astuple(choose(trace, scale=1000.0)) == (pytest.approx(1.0), 1000.0)


def test_features_that_are_all_zero_teach_nothing_and_break_nothing(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("1 7:0\n0 7:0\n")
    assert choose(data_files.load_training_set(tmp_path / "set", 1, 1)) == Hyperparameters(1.0, SCALE)


def test_the_built_in_workload_keeps_its_rate() -> None:
    chosen = choose(generate(R1, WORKERS, 200, seed=1))
    assert astuple(chosen) == (pytest.approx(LEARNING_RATE, rel=0.05), SCALE)


def test_chance_is_the_entropy_of_the_labels(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("1 1:1\n0 1:1\n0 1:1\n0 1:1\n")
    samples = data_files.load_training_set(tmp_path / "set", 1, 4).samples
    assert samples is not None
    assert chance_loss(samples) == pytest.approx(0.25 * np.log(4) + 0.75 * np.log(4 / 3))
    (tmp_path / "set").write_text("1 1:1\n1 1:1\n")
    samples = data_files.load_training_set(tmp_path / "set", 1, 2).samples
    assert samples is not None and chance_loss(samples) == 0
