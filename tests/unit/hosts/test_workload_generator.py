"""The built-in workload has the requested skew, is reproducible and can be learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import DataError
from hosts.model import LogisticRegression
from hosts.workload.generator import R1, R2, Shape, calibrate, generate
from hosts.workload.trace import Trace, distinct_columns, distinct_positions
from switch_harness.wording import mentions

SMALL = replace(R1, parameters=5000, hot=200, keys_per_step=150)


def counts_of(trace: Trace, steps: range) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    parts = [trace.batch(worker + 1, step).positions for worker in range(trace.workers) for step in steps]
    return np.bincount(np.concatenate(parts), minlength=trace.space.size)


def test_r1_is_calibrated_on_updates() -> None:
    trace = generate(R1, workers=4, steps=300, seed=1)
    assert len(trace.position) > 3_000_000
    assert np.diff(trace.key_start).mean() == pytest.approx(R1.keys_per_step, rel=0.01)
    chosen_on, measured_on = counts_of(trace, range(150)), counts_of(trace, range(150, 300))
    hot = np.argsort(-chosen_on)[: R1.hot]
    assert measured_on[hot].sum() / measured_on.sum() > 0.47
    everything = np.sort(chosen_on + measured_on)
    assert everything[-R1.hot :].sum() / everything.sum() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("shape", [R1, R2, SMALL])
def test_the_calibrated_law_has_the_requested_keys_per_step_and_hot_share(shape: Shape) -> None:
    law, draws = calibrate(shape)
    ranks = np.arange(min(shape.parameters, 2_000_000) + 1)
    updates = law.updates(draws, ranks)
    tail = 0.0
    if shape.parameters > ranks[-1]:
        edges = np.geomspace(ranks[-1], shape.parameters, 5000).astype(np.int64)
        tail = float(law.updates(draws, np.unique(edges)).sum())
    total = updates.sum() + tail
    assert total == pytest.approx(shape.keys_per_step, rel=0.01)
    assert updates[: shape.hot].sum() / total == pytest.approx(shape.hot_share, abs=0.005)


def test_equal_seeds_give_equal_traces_and_different_seeds_do_not(tmp_path: Path) -> None:
    one, same, other = (generate(SMALL, 2, 6, seed) for seed in (1, 1, 2))
    one.save(tmp_path / "trace")
    back = Trace.load(tmp_path / "trace")
    for worker in (1, 2):
        for step in range(6):
            batches = [trace.batch(worker, step) for trace in (one, same, back)]
            for name in ("positions", "label", "sample", "column"):
                first, *rest = (getattr(batch, name) for batch in batches)
                assert all(np.array_equal(first, column) for column in rest)
    assert not np.array_equal(one.position, other.position)
    assert np.array_equal(back.batch(1, 8).positions, one.batch(1, 2).positions)
    assert back.largest_batch == np.diff(one.key_start).max()


def test_training_on_r1_lowers_the_loss_without_overflow() -> None:
    trace = generate(R1, workers=1, steps=250, seed=3)
    model, values, losses = LogisticRegression(), np.zeros(R1.parameters, dtype=np.uint32), []
    for step in range(trace.steps):
        batch = trace.batch(1, step)
        deltas, loss = model.step(batch, values[batch.positions])
        values[batch.positions] += deltas
        losses.append(loss)
    assert losses[0] == pytest.approx(np.log(2))
    assert np.mean(losses[-50:]) < 0.64
    assert np.abs(values.view(np.int32)).max() < 2**31 / 100


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 30), st.integers(0, 28), st.integers(0, 2**32))
def test_distinct_columns_of_batches_equal_numpys_unique(
    batches: int, draws: int, size: int, low_bits: int, seed: int
) -> None:
    limit = min(size, 2 ** (32 - low_bits))
    drawn = np.random.default_rng(seed).integers(0, limit, (batches, draws)) << low_bits
    sizes, distinct, column = distinct_columns(drawn)
    starts = np.append(0, np.cumsum(sizes))
    sizes_alone, distinct_alone = distinct_positions(drawn)
    assert np.array_equal(sizes_alone, sizes)
    assert distinct_alone.dtype == distinct.dtype and np.array_equal(distinct_alone, distinct)
    for b in range(batches):
        wanted, inverse = np.unique(drawn[b], return_inverse=True)
        assert distinct[starts[b] : starts[b + 1]].tolist() == wanted.tolist()
        assert column[b].tolist() == inverse.tolist()


def test_without_samples_mini_batches_are_the_same() -> None:
    whole, without = (generate(R1, 2, 20, seed=5, has_samples=has_samples) for has_samples in (True, False))
    assert whole.samples is not None and without.samples is None
    assert np.array_equal(without.key_start, whole.key_start)
    assert np.array_equal(without.position, whole.position)


def test_an_invalid_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=mentions("trace", "read")):
        Trace.load(tmp_path)
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(DataError, match=mentions("trace", "read")):
        Trace.load(tmp_path)
