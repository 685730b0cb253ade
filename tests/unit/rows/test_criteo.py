"""The workload of Criteo's tables has the published sizes and skews, and runs in a simulated cluster."""

from __future__ import annotations

import numpy as np
import pytest

from experiment.errors import ConfigError
from experiment.run_config import RUN_TOML, Config, load_config
from foundation.designs.registry import NAMES, design
from foundation.protocol.header import DIMS
from hosts.keys import KeySpace
from hosts.model import LogisticRegression
from hosts.model.hyperparameters import choose
from hosts.workload.criteo import FIRST_ROWS, RANGES, SAMPLES, TABLES, CriteoTables, Table
from hosts.workload.generator import generate_from
from hosts.workload.trace import Trace

KEYS = 400


@pytest.fixture(scope="module")
def trace() -> Trace:
    random = np.random.default_rng(2)
    return generate_from(CriteoTables(KEYS, random), workers=2, steps=200, random=random)


def test_tables_have_different_sizes_dims_and_skews() -> None:
    assert len(TABLES) == 26
    assert {table.dim for table in TABLES} == {1, 4, 8, 16, 32, 64} < set(DIMS)
    assert min(table.rows for table in TABLES) == 3 and max(table.rows for table in TABLES) == 2**15
    exponents = [table.law().exponent for table in TABLES]
    assert min(exponents) == pytest.approx(1.077, abs=0.001) and max(exponents) == pytest.approx(
        2.5, abs=0.01
    )
    assert sum(table.rows * table.dim for table in TABLES) == 14_319_359


@pytest.mark.parametrize("table", [table for table in TABLES if table.frequent < table.values], ids=str)
def test_as_many_values_are_in_ten_samples_as_were_counted(table: Table) -> None:
    law, ranks = table.law(), np.arange(min(table.values, 10**6) + 1, dtype=np.float64)
    expected_samples = np.diff(law.cumulative(ranks)) * SAMPLES
    n_frequent = int((expected_samples >= 10).sum())
    # A table whose exponent is the largest has more.
    assert n_frequent == pytest.approx(table.frequent, rel=0.001) or law.exponent > 2.49 < n_frequent


def test_a_sample_has_a_row_of_each_table(trace: Trace) -> None:
    assert trace.samples is not None and set(trace.samples.length.tolist()) == {26}
    for worker, step in ((1, 0), (2, 7)):
        batch = trace.batch(worker, step)
        assert batch.column is not None
        rows = batch.positions[batch.column.astype(np.int64)].reshape(-1, 26)
        tables = np.searchsorted(FIRST_ROWS, rows, side="right") - 1
        np.testing.assert_array_equal(tables, np.broadcast_to(np.arange(26), tables.shape))
    assert np.diff(trace.key_start).mean() == pytest.approx(KEYS, rel=0.03)
    assert trace.space.ranges == RANGES


def test_rows_of_a_table_are_drawn_by_its_law(trace: Trace) -> None:
    assert trace.samples is not None
    largest = TABLES.index(max(TABLES, key=lambda table: table.values))
    for number in (0, largest):
        law = TABLES[number].law()
        top = float(law.cumulative(np.array([1.0]))[0])
        drawn = []
        for step in range(trace.steps):
            batch = trace.batch(1, step)
            assert batch.column is not None
            drawn.append(batch.positions[batch.column.astype(np.int64)].reshape(-1, 26)[:, number])
        _, counts = np.unique(np.concatenate(drawn), return_counts=True)
        assert counts.max() / counts.sum() == pytest.approx(top, abs=0.03)


def test_a_model_learns_from_rows_of_several_dims(trace: Trace) -> None:
    assert max(trace.space.dims) == 64
    chosen = choose(trace)
    model = LogisticRegression(chosen.scale, chosen.learning_rate, space=trace.space)
    values = np.zeros(trace.space.n_values, np.int32)
    losses = []
    for step in range(trace.steps):
        batch = trace.batch(1, step)
        places = trace.space.value_places(batch.positions)
        push, loss = model.step(batch, values[places].view(np.uint32))
        values[places] += push.view(np.int32)
        losses.append(loss)
    assert losses[0] == pytest.approx(np.log(2))
    assert np.mean(losses[-50:]) < 0.95 * losses[0]


def test_the_loss_with_rows_of_several_dims_equals_the_loss_with_single_values(trace: Trace) -> None:
    of_rows = LogisticRegression(learning_rate=0.2, space=trace.space)
    of_values = LogisticRegression(learning_rate=0.2)
    rows, values = np.zeros(trace.space.n_values, np.uint32), np.zeros(trace.space.size, np.uint32)
    for step in range(40):
        batch = trace.batch(1, step)
        places = trace.space.value_places(batch.positions)
        push, loss = of_rows.step(batch, rows[places])
        rows[places] += push
        push, expected = of_values.step(batch, values[batch.positions])
        values[batch.positions] += push
        assert loss == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "other"),
    [
        (["DIM=16"], "dim"), (["DESIGN=ring"], "ring"),
        (["DATA=clicks.csv"], "data"), (["SCRIPT=train.py", "TOP_K=9"], "script"),
        (["TOP_K=20000"], "top_k"),
    ],
)  # fmt: skip
def test_settings_that_cannot_have_several_dims_are_refused(arguments: list[str], other: str) -> None:
    with pytest.raises(ConfigError, match=other):
        load_config(["TABLES=criteo", *arguments])


@pytest.mark.parametrize("name", [name for name in NAMES if design(name).has_rows])
def test_each_design_with_rows_takes_the_tables(name: str) -> None:
    assert load_config(["TABLES=criteo", f"DESIGN={name}"]).row_ranges == RANGES


@pytest.mark.parametrize("name", ["hotset", "collect"])
def test_the_hot_sets_of_criteo_fit_into_the_switch(name: str) -> None:
    config = Config(tables="criteo", design=name)
    assert config.has_room_for_profile and config.top_k == 2_388 and config.max_dim == 64
    assert KeySpace(FIRST_ROWS[-1], ranges=config.row_ranges).n_values < 2**24


@pytest.mark.parametrize("dim", [16, 64, 128])
def test_run_toml_says_how_many_rows_are_hot(dim: int) -> None:
    assert f"{Config(dim=dim).top_k:,} with dim {dim}" in RUN_TOML.read_text().replace("\n# ", " ")
