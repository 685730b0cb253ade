"""Miss-ratio curves: exact ones against a plain LRU, samples within their error, files for planners."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotline_policies.miss_ratio import reuse
from hotline_policies.miss_ratio.curve import MissRatioCurve, miss_ratios
from hotline_policies.miss_ratio.output import torchrec_of
from hotline_policies.miss_ratio.reuse import reuse_histograms
from switch_harness.effort import examples
from switch_harness.wording import says
from tests.harness.access_logs import read
from tests.harness.cli import invoke, json_of
from tests.harness.wheels import TORCHREC, file_of_wheel, movielens


def plain_histogram(accesses: Sequence[int], keys: int) -> list[int]:
    """Count the keys before each access's own in a list of the most recently used keys."""
    counts, stack = [0] * (keys + 1), list[int]()
    for key in accesses:
        if key in stack:
            counts[stack.index(key) + 1] += 1
            stack.remove(key)
        else:
            counts[0] += 1
        stack.insert(0, key)
    return counts


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 9), max_size=400), st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_reuse_distances_equal_the_distances_in_a_plain_list(keys: list[int], groups: list[int]) -> None:
    accesses, group_of = np.array(keys, np.uint32), np.array(groups, np.uint16)
    parts = [accesses[:7], accesses[7:]]
    for group, found in enumerate(reuse_histograms(parts, group_of, 3)):
        inside = [key for key in keys if groups[key] == group]
        assert found.tolist() == plain_histogram(inside, groups.count(group))


def test_reuse_distances_stay_exact_when_access_times_are_renumbered() -> None:
    random = np.random.default_rng(5)
    keys = (random.pareto(0.7, 30_000) * 5).astype(np.int64) % 900
    distinct, accesses = np.unique(keys, return_inverse=True)
    group_of = (distinct % 3).astype(np.uint16)
    for group, found in enumerate(reuse_histograms([accesses.astype(np.uint32)], group_of, 3)):
        inside = accesses[keys % 3 == group].tolist()
        assert found.tolist() == plain_histogram(inside, int((group_of == group).sum()))
    assert reuse._MIN_WORDS * 64 * 30_000 > 2 * 900  # they are used up many times


def test_a_log_of_two_tables_has_a_curve_of_each_table_and_of_all_keys(tmp_path: Path) -> None:
    report = json_of("policies", "miss-ratio", movielens(), "--batch", 1, "-o", tmp_path / "curve.csv")
    whole, users, items = report["curves"]
    assert [each["table"] for each in report["curves"]] == ["all", "user_id", "item_id"]
    assert (whole["keys"], users["keys"], items["keys"]) == (2_625, 943, 1_682)
    assert (whole["first_accesses"], items["first_accesses"]) == (2_625, 1_682)
    # In a cache for each key only first accesses miss.
    assert items["miss_ratio"][-1] == pytest.approx(1_682 / 100_000)
    assert users["miss_ratio"][users["sizes"].index(1)] < 0.2 < items["miss_ratio"][0]
    table = pl.read_csv(tmp_path / "curve.csv").filter(table="item_id")
    assert table["miss_ratio"].to_list() == pytest.approx(items["miss_ratio"])
    for suffix in ("json", "png", "pdf", "svg"):
        assert (
            invoke("policies", "miss-ratio", movielens(), "-o", tmp_path / f"curve.{suffix}").exit_code == 0
        )
    assert json.loads((tmp_path / "curve.json").read_text())["name"] == "ml-100k.inter"
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    refused = invoke("policies", "miss-ratio", movielens(), "-o", tmp_path / "curve.txt")
    assert (refused.exit_code, says(refused.output, ".csv", "suffix")) == (1, True)


def test_a_sample_is_within_its_error(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    weights = 1 / np.arange(1, 20_001) ** 0.8
    keys = random.choice(20_000, 200_000, p=weights / weights.sum())
    path = tmp_path / "log.csv"
    pl.DataFrame({"item_id": keys * 7919}).write_csv(path)
    log = read(tmp_path, path)
    (exact,) = miss_ratios(log, None, lambda done, total: None).curves
    (sampled,) = miss_ratios(log, 0.1, lambda done, total: None).curves
    assert sampled.error is not None and 0.001 < sampled.max_error < 0.15
    assert sampled.sizes[0] >= 80  # there the smallest part of the sample has a place
    assert all(abs(exact.at(size) - sampled.at(size)) <= sampled.max_error for size in sampled.sizes)
    assert sampled.first_accesses == pytest.approx(exact.first_accesses, rel=0.1)
    printed = invoke("policies", "miss-ratio", path, "--batch", 1, "--sample", 0.1).stdout
    assert says(printed, "10.00%", "95 %")


def test_the_files_for_torchrec_and_hugectr_have_the_hit_rates_of_the_log(tmp_path: Path) -> None:
    torchrec, hugectr = tmp_path / "torchrec.json", tmp_path / "hugectr.json"
    invoke(
        "policies", "miss-ratio", movielens(), "--batch", 100, "--torchrec", torchrec, "--hugectr", hugectr
    )
    stats = json.loads(torchrec.read_text())["item_id"]["stats"]
    log = read(tmp_path, movielens(), batch=100)
    items = miss_ratios(log, None, lambda done, total: None).curves[2]
    assert (stats["height"], len(stats["mrc_hist_counts"])) == (1_682, 1_000)
    assert stats["expected_lookups"] == round(items.accesses / 1_000)
    # All accesses but the first of each key have a stack distance.
    assert sum(stats["mrc_hist_counts"]) == pytest.approx(items.accesses - 1_682)
    assert 0 < stats["cacheability"] < 1
    shares = json.loads(hugectr.read_text())["item_id"]["top_k"]
    counts = np.sort(np.bincount(log.accesses[log.table_of[log.accesses] == 1]))[::-1]
    assert shares[3]["gpucacheper"] == 0.1 and shares[3]["keys"] == 169
    assert shares[3]["hit_rate"] == pytest.approx(counts[:169].sum() / counts.sum())
    assert shares[-1]["hit_rate"] == 1


def curve_of_items(folder: Path) -> MissRatioCurve:
    log = read(folder, movielens(), columns="key=item_id")
    (curve,) = miss_ratios(log, None, lambda done, total: None).curves
    return curve


def expected_miss_rate(stats: dict[str, Any], load_factor: float) -> float:
    """Return what TorchRec's planner makes of these statistics (`estimate_cache_miss_rate`)."""
    misses = 1 - np.cumsum(stats["mrc_hist_counts"]) / np.sum(stats["mrc_hist_counts"])
    edges = np.linspace(0, stats["height"], len(misses) + 1)
    at = np.searchsorted(edges, load_factor * stats["height"] - 1, side="right")
    return float(np.append(misses, [0.0, 1.0])[at - 1])


def test_torchrecs_planner_sees_the_misses(tmp_path: Path) -> None:
    curve = curve_of_items(tmp_path)
    stats: Any = torchrec_of(curve)["stats"]
    for load_factor in (0.01, 0.1, 0.3, 1.0):
        misses = curve.accesses * curve.at(load_factor * 1_682) - curve.first_accesses
        expected = misses / (curve.accesses - curve.first_accesses)
        assert expected_miss_rate(stats, load_factor) == pytest.approx(expected, abs=0.01)


@pytest.mark.skipif(find_spec("torchrec") is None, reason="TorchRec is not installed")
def test_torchrecs_class_computes_the_same_expected_miss_rates(tmp_path: Path) -> None:
    import torch  # type: ignore[import-not-found,unused-ignore]  # not in requirements.lock
    from torchrec.distributed.planner.shard_estimators import (  # type: ignore[import-not-found,unused-ignore]
        EmbeddingOffloadStats,
    )

    curve = curve_of_items(tmp_path)
    stats: Any = torchrec_of(curve)["stats"]
    theirs = EmbeddingOffloadStats(**{**stats, "mrc_hist_counts": torch.tensor(stats["mrc_hist_counts"])})
    for load_factor in (0.01, 0.1, 0.5, 1.0):
        assert theirs.expected_miss_rate(load_factor) == pytest.approx(
            expected_miss_rate(stats, load_factor), abs=1e-4
        )


def class_of_torchrec(file: str, name: str) -> ast.ClassDef:
    tree = ast.parse(file_of_wheel(TORCHREC, f"torchrec/distributed/{file}").read_text())
    [found] = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    return found


class Histogram(np.ndarray[Any, np.dtype[np.float64]]):
    """An array with the one keyword of PyTorch that TorchRec's estimate uses."""

    def cumsum(self, dim: int) -> Any:  # type: ignore[override]  # as PyTorch's
        return np.asarray(self).cumsum(dim)


@pytest.mark.soak
def test_torchrecs_sources_take_and_read_the_statistics(tmp_path: Path) -> None:
    """The wheel's sources suffice: PyTorch, which they import, is too large to install for this."""
    stats = class_of_torchrec("planner/shard_estimators.py", "EmbeddingOffloadStats")
    functions = {each.name: each for each in stats.body if isinstance(each, ast.FunctionDef)}
    curve = curve_of_items(tmp_path)
    written: Any = torchrec_of(curve)
    arguments = [each.arg for each in functions["__init__"].args.args]
    assert arguments == ["self", *written["stats"]]
    params = class_of_torchrec("types.py", "CacheParams")
    fields = [each.target for each in params.body if isinstance(each, ast.AnnAssign)]
    assert {*written["cache_params"]} < {each.id for each in fields if isinstance(each, ast.Name)}
    estimate = functions["estimate_cache_miss_rate"]
    estimate.decorator_list = []
    torch = SimpleNamespace(
        Tensor=np.ndarray, tensor=np.array, cat=np.concatenate, float32=np.float32, zeros_like=np.zeros_like,
        bucketize=lambda at, bins, right: np.searchsorted(bins, at, side="right" if right else "left"),
    )  # fmt: skip
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(ast.Module([estimate], []), "shard_estimators.py", "exec"), scope)
    counts = np.array(written["stats"]["mrc_hist_counts"]).view(Histogram)
    bins = np.linspace(0, curve.keys, len(counts) + 1)
    for load_factor in (0.01, 0.1, 0.5, 1.0):
        found = scope[estimate.name](np.array(load_factor * curve.keys), counts, bins)
        assert found == pytest.approx(expected_miss_rate(written["stats"], load_factor), abs=1e-6)


@pytest.mark.parametrize("option", ["-o", "--torchrec", "--hugectr"])
def test_an_output_is_checked_before_the_log_is_read(tmp_path: Path, option: str) -> None:
    (log := tmp_path / "log.csv").write_text("item_id\nx\n1\n1\n")
    refused = invoke("policies", "miss-ratio", log, option, tmp_path / "missing" / "a.json")
    assert (refused.exit_code, says(refused.output, "written", "file")) == (1, True)
    (linked := tmp_path / "linked.json").symlink_to(log)
    refused = invoke("policies", "miss-ratio", log, option, linked)
    assert (refused.exit_code, says(refused.output, "overwrite")) == (1, True)
    assert log.read_text() == "item_id\nx\n1\n1\n"


def test_the_options_on_columns_add_up(tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text("1;B5;7;2\n2;B5;7;0\n3;C5;8;1\n")
    arguments = ["policies", "miss-ratio", log, "--batch", 1, "--columns", "key=2", "--columns", "key=3"]
    options = ["--columns", "time=1", "--text", 3, "--weight", 4, "--separator", ";", "--format", "table"]
    done = invoke(*arguments, *options, "--json")
    report = json.loads(done.stdout)
    assert [(each["table"], each["accesses"], each["keys"]) for each in report["curves"]] == [
        ("all", 6, 4), ("2", 3, 2), ("3", 3, 2),
    ]  # fmt: skip
    chosen = "text keys in 2, 3, 2 tables, time in 1, weight in 4"
    assert done.stderr.splitlines()[0].endswith(chosen)
    ignored = invoke(*arguments, "--ignore", 3, "--json")
    assert (ignored.exit_code, says(ignored.output, "ignored", "column")) == (
        1,
        True,
    )
