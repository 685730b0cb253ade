"""Answers for rows of several dims: against simulations, and what an answer without a dim says of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.statistics import MIN_ROUNDS
from experiment.phases import workload
from foundation.optimisers import Adagrad
from foundation.protocol.header import LANES
from foundation.protocol.memory import memory_of, memory_of_rows
from foundation.protocol.rows import RowRange
from hosts.workload.generator import generate
from hotline_answers.cluster_answer import ask, dims, hotset
from hotline_answers.cluster_answer.arm_results import ArmResult, OffloadComparison
from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_answers.cluster_answer.cluster import Cluster, config_for
from hotline_answers.cluster_answer.dims import OTHER_DIMS
from hotline_answers.cluster_answer.hotset import ScoredWorkload, shorten, simulated_part
from hotline_answers.cluster_answer.sentences import rows_sentence
from hotline_answers.result import Answer, answer
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.devices import DEVICES
from hotline_simulator.experiment import quiet_reporter
from packages.answers.tests.harness.capacities import capacities_of
from packages.answers.tests.harness.workloads import small_workload
from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.harness.traces import trace_of

CLUSTER: dict[str, Any] = {"workers": 4, "servers": 2, "keys_per_step": 200, "top_k": 2_000}
ROWS: dict[str, dict[str, Any]] = {
    **{f"rows of {dim}": {"dim": dim} for dim in (8, 16, 32, 64, 128)},
    "users of 16, items of 64": {"dims": ("user=16", "item=64")},
}
WITHIN = [f"rows of {dim}" for dim in (16, 32, 64)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path, steps=40, draws=50)


def write_log(folder: Path, steps: int, draws: int) -> Path:
    """Write steps of four workers, each of which draws users and items, some of them often."""
    chance, workers = np.random.default_rng(3), 4
    shape = (steps, workers, draws)
    weights = 1 / np.arange(1, 1_501)
    user, item = chance.choice(1_500, (2, *shape), p=weights / weights.sum())
    columns = {
        "iteration": np.broadcast_to(np.arange(steps)[:, None, None], shape).ravel(),
        "worker": np.broadcast_to(np.arange(1, workers + 1)[:, None], shape).ravel(),
        "user": user.ravel(),
        "item": item.ravel(),
    }
    file = folder / "log.parquet"
    pl.DataFrame(columns).write_parquet(file)
    return file


def of_log(log: Path, **rows: Any) -> dict[str, Any]:
    columns = "key=user,item,iteration=iteration,worker=worker"
    return {"workers": 4, "servers": 2, "data": log, **{"columns": columns, **rows}}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have answers leave out the effects of other inputs, and simulate a small workload.

    They simulate as few rounds as have an interval.
    """

    def few_rounds(*arguments: Any) -> SimulationConfig:
        return config_for(*arguments).model_copy(update={"rounds": MIN_ROUNDS})

    monkeypatch.setattr(ask, "_effects", lambda *arguments: ())
    monkeypatch.setattr(ask, "config_for", few_rounds)
    with small_workload():
        yield


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "rows",
    # Of rows of one dim, `make test` has the narrowest and the widest.
    [pytest.param(rows, marks=[pytest.mark.soak] * (rows in WITHIN)) for rows in ROWS],
)
def test_an_answer_equals_a_simulation_with_the_same_rows(log: Path, rows: str) -> None:
    found = answer(**of_log(log, **ROWS[rows]))
    assert found.rows == "" and found.other_dims == ()
    assert_alike(found)


@pytest.mark.usefixtures("short")
def test_a_column_of_dims_gives_the_same_answer_as_dims_by_table(log: Path) -> None:
    tables = [
        pl.read_parquet(log).select("iteration", "worker", key=name).with_columns(table=pl.lit(name), d=dim)
        for name, dim in (("user", 10), ("item", 64))
    ]
    file = log.with_name("by_table.parquet")
    pl.concat(tables).sort("iteration", "worker", maintain_order=True).write_parquet(file)
    columns = "key=key,table=table,iteration=iteration,worker=worker"
    by_options = answer(**of_log(file, columns=columns, dims=("user=10", "item=64")))
    by_column = answer(**of_log(file, columns=f"{columns},dim=d"))
    assert (by_column.sizes, by_column.sides) == (by_options.sizes, by_options.sides)
    assert (by_column.rows, by_column.other_dims) == ("", ())
    assert any("16 and 64 values, as a column" in sentence for sentence in by_column.sentences)


def assert_alike(found: ClusterAnswer) -> None:
    """RPCs and packets are counted as they are simulated."""
    sizes = {size.top_k: size for size in found.sizes}
    for top_k, side in ((0, found.sides.baseline), (found.sides.top_k, found.sides.offload)):
        assert sizes[top_k].rpcs_per_step == pytest.approx(side.rpcs_per_step, rel=0.05)
        assert sizes[top_k].ps_packets_per_step == pytest.approx(side.ps_packets_per_step, rel=0.1)


@cache
def answer_without_dim() -> Answer:
    """Return the answer of tests that use `short`."""
    return answer(**CLUSTER)


@pytest.mark.usefixtures("short")
def test_without_a_dim_an_answer_gives_the_capacities_with_other_dims() -> None:
    found = answer_without_dim()
    assert [each.dim for each in found.other_dims] == list(OTHER_DIMS)
    for each in found.other_dims:
        whole = capacities_of(Cluster(**CLUSTER | {"top_k": each.top_k}, dim=each.dim))
        assert each.top_k == min(2_000, DEVICES["ideal"].hot_rows(each.dim))
        assert (each.baseline, each.offload) == pytest.approx(whole, rel=0.1)
    capacities = [each.baseline for each in found.other_dims]
    assert capacities == sorted(capacities, reverse=True)
    assert found.sides.baseline.capacity > 1.5 * capacities[0]


@pytest.mark.usefixtures("short")
def test_the_first_lines_say_that_no_dim_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer_without_dim().model_copy(update={"rows": "", "other_dims": ()})
    others = tuple(
        dims.DimEffect(dim=dim, top_k=1_000, baseline=10 / dim, offload=15 / dim) for dim in OTHER_DIMS
    )
    rows = rows_sentence(others, "ideal")
    for dim in OTHER_DIMS:
        assert f"of {dim}, 1.50 times as much with 1,000 hot keys" in rows
    assumed = found.model_copy(update={"rows": rows, "other_dims": others})
    monkeypatch.setattr("hotline_answers.result.answer", lambda reporter, **cluster: assumed)
    command = ("answer", "--workers", 4, "--servers", 2)
    printed = " ".join(invoke(*command).stdout.split())
    assert printed.startswith(" ".join([*found.bottleneck, rows, found.headline]))
    page = assumed._repr_html_()
    assert page.index(rows) < page.index(found.headline)
    monkeypatch.setattr("hotline_answers.result.answer", lambda reporter, **cluster: found)
    printed = " ".join(invoke(*command, "--dim", 1).stdout.split())
    assert printed.startswith(" ".join([*found.bottleneck, found.headline]))


def test_a_chip_has_rows_of_one_value() -> None:
    refused = invoke("answer", "--workers", 4, "--servers", 2, "--switch", "tofino", "--dim", 16)
    assert refused.exit_code == 1 and "serves rows of one value" in refused.stderr
    assert "1 value, the only ones" in rows_sentence((), "tofino")


@pytest.mark.parametrize("dim", [1, 8, 16, 64, 100, 128])
def test_the_default_hot_set_fits(dim: int) -> None:
    cluster = Cluster(workers=4, servers=2, dim=dim)
    most = DEVICES["ideal"].hot_rows(dim)
    assert cluster.requested_top_k == min(20_000, most)
    assert memory_of(most, dim).registers <= 2_097_152 * 7 / 8
    refused = invoke("answer", "--workers", 4, "--servers", 2, "--dim", dim, "--top-k", most + 1)
    assert refused.exit_code == 1 and f"{most:,}" in refused.stderr


@pytest.mark.usefixtures("short")
def test_rows_of_two_dims_fill_the_switch(tmp_path: Path) -> None:
    """Of 4,500 users of 64 values and as many items of 1, fewer fit than of items alone."""
    batches, keys = 120, 150
    rows = {"iteration": np.arange(batches * keys) // keys, "user": np.arange(batches * keys) % 4_500}
    log = tmp_path / "log.parquet"
    pl.DataFrame(rows).with_columns(item="user").write_parquet(log)
    options: dict[str, Any] = {
        "workers": 1, "servers": 1, "data": log, "columns": "key=user,item,iteration=iteration",
    }  # fmt: skip
    found = answer(**options, dims=("user=128", "item=1"))
    largest = found.sizes[-1]
    assert largest.top_k < 9_000
    wide, small = memory_of(1, 128).registers, memory_of(1, 1).registers
    assert largest.register_bytes > largest.top_k // 2 * small
    assert largest.register_bytes <= 4_096 * LANES * small
    assert (largest.register_bytes - largest.top_k * small) % (wide - small) == 0
    assert largest.entry_bytes == memory_of_rows(np.ones(largest.top_k, np.int64)).entries
    refused = invoke("answer", "--workers", 1, "--servers", 1, "--dims", "user=16")
    assert refused.exit_code == 1 and "expected --data with such tables" in refused.stderr
    without = invoke("answer", "--workers", 4, "--servers", 2, "--columns", "dim=n")
    assert without.exit_code == 1 and "--columns dim=n: expected --data" in without.stderr


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("dims", "smallest", "named"),
    [
        (("user=10", "item=64"), 10, ("10 values", "user", "64 values", "item")),
        (("user=32", "item=32"), 32, ("32 values", "item")),
        (("user=64",), 1, ("1 value", "--dims", "64 values", "user")),
    ],
)
def test_a_hot_set_that_is_too_large_names_the_tables_of_the_log(
    log: Path, dims: tuple[str, ...], smallest: int, named: tuple[str, ...]
) -> None:
    """Whether rows of one value exist is known when the log has been read."""
    most = DEVICES["ideal"].hot_rows(smallest)
    with pytest.raises(SimulationError) as refused:
        answer(**of_log(log, dims=dims, top_k=200_000))
    assert says(refused.value, "200,000", f"{most:,}", *named)
    assert says(refused.value, "1 value") == (smallest == 1)


@pytest.mark.parametrize("dim", [16, 128])
def test_fewer_mini_batches_with_the_same_hot_rows_are_simulated(dim: int) -> None:
    """Beyond 16 million values of all rows; those of the simulated mini-batches are fewer."""
    chance = np.random.default_rng(2)
    batches = [sorted(chance.choice(20_000, 400, replace=False).tolist()) for _ in range(40)]
    trace = replace(trace_of(batches), profile_steps=20)
    space = replace(trace.space, ranges=(RowRange(0, dim),))
    updates = np.bincount(trace.position[: trace.key_start[20]], minlength=trace.space.size)
    whole = ScoredWorkload(replace(trace, space=space), updates)
    assert simulated_part(whole, 100) is whole
    short = shorten(whole, 1, 4, 100)
    assert short.trace.space.dims == (dim,) and short.first_step == 0
    for step in range(4):
        keys = short.trace.space.keys(short.trace.batch(1, step).positions)
        assert keys.tolist() == space.keys(trace.batch(1, 20 + step).positions).tolist()
    hottest = space.keys(np.argsort(-updates, kind="stable")[:100])
    hot = short.trace.space.keys(np.flatnonzero(short.updates))
    assert set(hot.tolist()) == set(hottest.tolist()) & set(short.trace.space.all().tolist())


def test_values_beyond_memory_are_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hotset, "MAX_VALUES_OF_MODEL", 4_000)
    trace = replace(trace_of([list(range(1, 501))] * 40), profile_steps=20)
    space = replace(trace.space, ranges=(RowRange(0, 16),))
    whole = ScoredWorkload(replace(trace, space=space), np.ones(trace.space.size, np.int64))
    assert simulated_part(whole, 100).trace.steps == 4


@pytest.mark.soak
@pytest.mark.parametrize(("workers", "servers"), [(8, 2), (80, 20)])
def test_other_dims_at_most_double_the_time(
    workers: int, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "generate", generate)  # each answer generates its data

    def cpu_s(dim: int | None = None) -> float:
        begin = time.process_time()
        answer(workers=workers, servers=servers, dim=dim)
        return time.process_time() - begin

    cpu_s(1)  # compiles
    assert cpu_s() < 2 * cpu_s(1)


@pytest.mark.parametrize(("workers", "others"), [(8, OTHER_DIMS), (9, ())])
def test_rows_of_other_dims_are_not_simulated_for_a_part_of_a_cluster_with_an_optimiser(
    workers: int, others: tuple[int, ...]
) -> None:
    cluster = Cluster(workers=workers, servers=2, keys_per_step=100, optimiser=Adagrad())
    config = config_for(cluster)
    workload = hotset.workload_for(config, None, quiet_reporter())
    side = ArmResult.model_construct(capacity=1.0)
    comparison = OffloadComparison.model_construct(top_k=100, baseline=side, offload=side)
    effects = dims.dim_effects(cluster, workload, 100, comparison, lambda *_: (1.0, 2.0))
    assert tuple(each.dim for each in effects) == others
    assert says(rows_sentence((), "ideal"), "row of 1 value", "optimiser", "8 workers")
