"""Training with sharded batches has the same bits with any number of workers; errors of formats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from hotline_allreduce.exact import accuracy, training
from hotline_allreduce.exact.training import SHARDS, WORKER_COUNTS, ShardedModel, train
from hotline_simulator.costs import Network
from switch_harness.wording import mentions
from tools.evidence.result import published_table


@pytest.mark.parametrize("steps", [10, pytest.param(training.STEPS, marks=pytest.mark.soak)])
def test_the_bits_are_the_same_with_any_number_of_workers(steps: int) -> None:
    found = [train(workers, steps, Network(loss=0.01 * (workers == 2))) for workers in WORKER_COUNTS]
    weights, repeated = zip(*found, strict=True)
    assert len({each.tobytes() for each in weights}) == 1 and np.count_nonzero(weights[0])
    assert len(set(repeated)) == 1 and 0.1 < repeated[0] < 0.5
    if steps == training.STEPS:
        published = published_table("exact-bits").rows
        assert [row.names for row in published] == [(str(workers),) for workers in WORKER_COUNTS]
        assert len({row.cells[0] for row in published}) == 1
        assert {row.cells[1] for row in published} == {round(100 * repeated[0], 2)}


def test_float32_sums_of_the_same_shards_have_different_bits() -> None:
    """So the equal bits come from the sums, and not from data for which any order will do."""
    model = ShardedModel()
    gradients = [model.gradient(0, shard) for shard in range(SHARDS)]
    in_order, of_halves = np.zeros_like(gradients[0]), np.zeros_like(gradients[0])
    for one, other in zip(gradients[:16], gradients[16:], strict=True):
        in_order += one
        of_halves += one + other
    for other in gradients[16:]:
        in_order += other
    assert (in_order != of_halves).any()


def test_a_number_of_workers_that_does_not_divide_the_number_of_shards_is_refused() -> None:
    with pytest.raises(ValueError, match=mentions("workers", 32, 3)):
        train(3, 1)


def test_the_command_prints_the_same_bits_for_each_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "WORKER_COUNTS", (1, 2))
    run = CliRunner().invoke(training.main, ["--steps", "2"])
    assert run.exit_code == 0
    *_, one, two = run.stdout.splitlines()
    assert one.split("|")[2:] == two.split("|")[2:] and len(one.split("|")[2].strip()) == 16


@pytest.mark.parametrize("distribution", accuracy.DISTRIBUTIONS)
@pytest.mark.parametrize("workers", [8, pytest.param(32, marks=pytest.mark.soak)])
def test_measured_errors_equal_the_published_errors(distribution: str, workers: int) -> None:
    row = accuracy.measure_errors(distribution, workers, 20_000)
    shares = [*list(row.wrong.values())[:2], row.orders_differ, row.wrong["SwitchML"]]
    assert published("exact-wrong-sums", row) == [
        *(f"{100 * share:.2f}" for share in shares), f"{100 * row.wrong['exact']:g}",
        f"{100 * row.repeated:.2f}",
    ]  # fmt: skip
    errors = [f"{error:,.0f}" for error in row.largest_error.values()]
    assert published("exact-largest-errors", row) == errors


def published(name: str, row: accuracy.FormatErrors) -> list[str]:
    """Return the cells of a published table for a distribution and number of workers."""
    table = published_table(name)
    return [table.text_of(f"{row.distribution}, {row.workers}", column.name) for column in table.columns]


@pytest.mark.parametrize("name", ["exact-wrong-sums", "exact-largest-errors"])
def test_the_published_tables_are_complete(name: str) -> None:
    expected = {
        (distribution, str(workers))
        for distribution in accuracy.DISTRIBUTIONS
        for workers in accuracy.WORKER_COUNTS
    }
    assert {row.names for row in published_table(name).rows} == expected


def test_only_exact_sums_have_no_wrong_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "WORKER_COUNTS", (4,))
    rows = [accuracy.measure_errors(name, 4, 600) for name in accuracy.DISTRIBUTIONS]
    for row in rows:
        assert row.wrong["exact"] == row.largest_error["exact"] == 0 < row.wrong["SwitchML"]
        assert row.orders_differ > 0.1 and row.wrong["float32"] > 0.1
    assert (
        rows[0].repeated == 0 < rows[-1].repeated
    )  # only the last one has magnitudes that lanes do not hold
    table: Any = CliRunner().invoke(accuracy.main, ["--values", "600"])
    assert table.exit_code == 0 and table.stdout.count("| normal over 40 octaves | 4 |") == 2
