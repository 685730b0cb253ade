"""The study's data: gradients of the small DLRM, and ratings as clicks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foundation.errors import DataError
from hotline_optimisers import dlrm
from hotline_optimisers.ratings import count_ratings, ratings_trace
from hotline_optimisers.training import Data, load
from switch_harness.wording import mentions

ROWS = (5, 7)


def test_the_gradient_of_dlrm_equals_finite_differences() -> None:
    trace = dlrm.make_trace(1, 1, 6, seed=3, rows=ROWS)
    model, batch = dlrm.DLRM(2.0**20, rows=ROWS), trace.batch(1, 0)
    weights = model.initial[batch.positions] + 0.05
    gradient, loss = model.gradient(batch, weights)
    step = 1e-6
    for at in range(len(weights)):
        around = [weights.copy(), weights.copy()]
        around[0][at] -= step
        around[1][at] += step
        low, high = (model.gradient(batch, each)[1] for each in around)
        assert gradient[at] == pytest.approx((high - low) / (2 * step), abs=1e-6)
    assert np.count_nonzero(gradient) > len(weights) / 2 and 0 < loss < 2


def test_a_mini_batch_of_dlrm_has_the_perceptrons_and_whole_rows() -> None:
    trace, dense = dlrm.make_trace(2, 3, 4, seed=1, rows=ROWS), dlrm.dense_size(ROWS)
    assert trace.space.size == dense + dlrm.DIM * sum(ROWS)
    for worker in (1, 2):
        for step in range(3):
            positions = trace.batch(worker, step).positions
            assert positions[:dense].tolist() == list(range(dense))
            rows = (positions[dense:] - dense).reshape(-1, dlrm.DIM)
            assert (rows[:, 0] % dlrm.DIM == 0).all() and (np.diff(rows) == 1).all()


def test_pushes_of_dlrm_are_gradients_or_steps_of_sgd() -> None:
    trace = dlrm.make_trace(1, 1, 6, seed=3, rows=ROWS)
    batch = trace.batch(1, 0)
    zeros = np.zeros(len(batch.positions), np.uint32)
    gradient, loss = dlrm.DLRM(2.0**24, rows=ROWS).step(batch, zeros)
    step, same = dlrm.DLRM(2.0**24, 0.5, rows=ROWS).step(batch, zeros)
    assert loss == same
    assert np.abs(step.view(np.int32) + 0.5 * gradient.view(np.int32)).max() <= 1


def test_ratings_are_clicks_of_users_and_items(tmp_path: Path) -> None:
    head = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    lines = [f"{user}\t{item}\t{1 + (user + item) % 5}\t0" for user in (7, 9, 30) for item in (2, 4, 5, 8)]
    file = tmp_path / "few.inter"
    file.write_text(head + "\n".join(lines) + "\n")
    assert count_ratings(file) == 12
    trace = ratings_trace(file, workers=2, batch=3, seed=1)
    assert (trace.workers, trace.steps, trace.space.size) == (2, 2, 1 + 3 + 4)
    seen = []
    for worker in (1, 2):
        for step in range(2):
            batch = trace.batch(worker, step)
            assert batch.column is not None and batch.label is not None
            features = batch.positions[batch.column].reshape(-1, 3)
            assert (features[:, 0] == 0).all()
            for (_, user, item), label in zip(features.tolist(), batch.label.tolist(), strict=True):
                rating = 1 + ((7, 9, 30)[user - 1] + (2, 4, 5, 8)[item - 4]) % 5
                assert label == (rating >= 4)
                seen.append((user, item))
    assert len(set(seen)) == 12


@pytest.mark.parametrize("text", ["user_id:token\titem_id:token\n1\t2\n", "", None])
def test_files_without_ratings_are_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "bad.inter"
    if text is not None:
        file.write_text(text)
    with pytest.raises(DataError, match=mentions("bad.inter", "user_id:token")):
        count_ratings(file)


def test_the_hot_set_is_chosen_from_the_part_that_tunes() -> None:
    data = load(Data(name="dlrm", batch=4, hot_keys=500, rows=(5, 300)), 3)
    trace = data.trace
    tuned = np.concatenate([trace.batch(w, step).positions for w in range(1, 5) for step in range(3)])
    counts = np.bincount(tuned, minlength=trace.space.size)
    assert len(data.hot_positions) == 500
    left = np.setdiff1d(np.arange(trace.space.size), data.hot_positions)
    assert counts[data.hot_positions].min() >= counts[left].max()
    assert 0.5 < data.hot_share < 1
