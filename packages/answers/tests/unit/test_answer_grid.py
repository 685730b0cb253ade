"""Compare calculated capacities with simulated ones, over clusters and logs from all-hot to none-hot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from experiment.config import MAX_TOP_K
from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_answers.cluster_answer.capacity import MAX_ERROR
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.result import answer
from packages.answers.tests.harness.capacities import capacities_with

pytestmark = pytest.mark.usefixtures("no_input_effects")


def _log(folder: Path, workers: int, keys: int, skew: float) -> Path:
    """Write 40 steps of 200 draws of each worker, whose keys have a Zipf distribution; 0 is a uniform one."""
    chance, steps = np.random.default_rng(5), 40
    weights = 1 / np.arange(1, keys + 1) ** skew
    drawn = chance.choice(keys, (steps, workers, 200), p=weights / weights.sum())
    shape = drawn.shape
    columns = {
        "iteration": np.broadcast_to(np.arange(steps)[:, None, None], shape).ravel(),
        "worker": np.broadcast_to(np.arange(1, workers + 1)[:, None], shape).ravel(),
        "key": drawn.ravel(),
    }
    file = folder / "log.parquet"
    pl.DataFrame(columns).unique(maintain_order=True).write_parquet(file)
    return file


def _assert_checked(found: ClusterAnswer) -> None:
    is_estimate = any("are estimates" in sentence for sentence in found.sentences)
    assert is_estimate is found.checks[-1].has_failed
    assert not is_estimate


@pytest.mark.parametrize(
    ("workers", "servers", "keys", "skew"),
    [(40, 2, 14_000, 1.0), (40, 4, 14_000, 0.0), (8, 4, 14_000, 0.0), (40, 1, 9_000, 1.0)],
    ids=["all hot", "all hot, no skew", "workers are the bottleneck", "one server"],
)
def test_sizes_are_within_ten_per_cent(
    tmp_path: Path, workers: int, servers: int, keys: int, skew: float
) -> None:
    """Sizes are calculated from a large hot set, and simulated."""
    data = _log(tmp_path, workers, keys, skew)
    large = answer(workers=workers, servers=servers, data=data, top_k=MAX_TOP_K, dim=1)
    _assert_checked(large)
    # All keys of the first half of the steps are hot, and serve what of the second half they know.
    assert 0.9 < large.sizes[-1].served <= 1 and len(large.sizes) >= 5
    # Half of them do: a size between two others is calculated as they are.
    smaller = {size.top_k: size.capacity for size in large.sizes[1:-1:2]}
    cluster = Cluster(workers=workers, servers=servers, data=data)
    assert smaller == pytest.approx(capacities_with(cluster, smaller), rel=MAX_ERROR)


def test_a_thousand_keys_are_not_enough_where_all_fit(tmp_path: Path) -> None:
    """Without packets to servers in the simulated size, smaller ones seemed to cost servers nothing."""
    found = answer(workers=40, servers=1, data=_log(tmp_path, 40, 14_000, 1.0), dim=1)
    thousand = next(size for size in found.sizes if size.top_k == 1_000)
    assert found.stops_at > 1_000
    assert thousand.capacity < 0.85 * found.sizes[-1].capacity


def test_a_hot_set_that_no_step_reads(tmp_path: Path) -> None:
    """Each step has its own keys, and those of the 1,000 hot ones are in a few steps."""
    rows = {"iteration": np.arange(40_000) // 1_000, "worker": np.arange(40_000) // 100 % 10 + 1}
    file = tmp_path / "log.parquet"
    pl.DataFrame({**rows, "key": np.arange(40_000)}).write_parquet(file)
    found = answer(workers=10, servers=2, data=file, top_k=1_000, dim=1)
    _assert_checked(found)
    assert found.sizes[1].served < 0.05
    assert found.sides.gain == pytest.approx(1, abs=0.05)
