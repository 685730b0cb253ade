"""Runs beside each other: intervals of what differs, and what has no counterpart."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from analysis.record import read_record
from analysis.statistics import compare_unpaired
from switch_harness.wording import says, says_in_one_line
from tests.harness.cli import invoke, json_of
from tests.unit.golden.run import GoldenRun


@pytest.fixture
def other(golden: GoldenRun, tmp_path: Path) -> Path:
    """Copy the run with twice the CPU time of servers and workers."""
    folder = Path(shutil.copytree(golden.folder, tmp_path / "other"))
    record = read_record(folder)
    for block in record.blocks:
        block.servers.cpu_s *= 2
        block.worker_cpu_s *= 2
    record.write(folder)
    return folder


def test_the_interval_is_welchs_interval_of_the_logarithms() -> None:
    from scipy.stats import ttest_ind  # here, so that one process of the tests spends 0.8 s on it, not all

    rng = np.random.default_rng(1)
    first, other = rng.lognormal(5, 0.1, 12), rng.lognormal(5.2, 0.3, 9)
    found = compare_unpaired(other, first)
    bounds = ttest_ind(np.log(other), np.log(first), equal_var=False).confidence_interval(0.95)
    assert (found.ratio_low, found.ratio_high) == pytest.approx((np.expm1(bounds.low), np.expm1(bounds.high)))
    assert found.ratio == pytest.approx(np.exp(np.log(other).mean() - np.log(first).mean()) - 1)
    assert found.value == pytest.approx(found.reference + found.difference)
    assert found.value == pytest.approx(np.exp(np.log(other).mean()))


def test_intervals_of_equal_runs_exclude_0_in_about_5_percent() -> None:
    """About 5 % of the intervals of 400 pairs of equal runs exclude 0."""
    rng = np.random.default_rng(2)
    found = [compare_unpaired(rng.lognormal(0, 0.2, 10), rng.lognormal(0, 0.4, 14)) for _ in range(400)]
    missed = sum(each.sign != 0 for each in found)
    assert 8 <= missed <= 34


def test_a_comparison_of_few_rounds_has_no_interval_and_of_zeros_no_ratio() -> None:
    few = compare_unpaired(np.array([2.0] * 5), np.array([1.0] * 10))
    assert few.ratio == pytest.approx(1) and few.low is few.ratio_high is None
    without = compare_unpaired(np.array([0.0, 3.0] * 5), np.array([1.0] * 10))
    assert without.difference == without.ratio == pytest.approx(0.5)
    gone, new, never = (
        compare_unpaired(np.full(6, value), np.full(6, first)) for value, first in ((0, 3), (3, 0), (0, 0))
    )
    assert (gone.ratio_low, gone.ratio, gone.ratio_high) == (-1, -1, -1)
    assert (new.ratio, new.low, new.high) == (None, 3, 3) and never.is_from_zero_to_zero
    same = compare_unpaired(np.array([2.0] * 6), np.array([1.0] * 6))
    assert (same.ratio_low, same.ratio_high) == pytest.approx((1, 1))


def test_each_arm_against_the_first_runs_and_offload_in_each(golden: GoldenRun, other: Path) -> None:
    result = invoke("compare", golden.folder, other)
    assert result.exit_code == 0, result.output
    assert says(result.output, "0.5", "steps/s", "offered", "1,234.5", golden.folder.name)
    lines = [line.replace("│", " ").split() for line in result.output.splitlines()]
    # Of arm baseline, offload and proxy against the first run's; within each run offload is as it was.
    cpu = [line[3:] for line in lines if line[:3] == ["PS", "CPU/step,", "µs"]]
    assert cpu[0] == ["400.0", "+100", "%", "[+100,", "+100]"]
    # One round of ten took more, in both runs alike.
    assert cpu[1][:3] == ["304.7", "+100", "%"]
    assert cpu[3] == [*["-24", "%", "[-25,", "-21]"] * 2]
    pulls = [line[3:] for line in lines if line[:3] == ["pull", "mean,", "µs"]]
    assert pulls[0] == ["519.2", "+0.0", "%", "[+0.0,", "+0.0]"]


def test_json_has_all_metrics(golden: GoldenRun, other: Path) -> None:
    reported = json_of("compare", golden.folder, other)
    assert list(reported) == [golden.folder.name, "other"]
    assert reported["other"]["changes"]["0.5"]["baseline"]["worker_cpu_us_per_step"][
        "ratio"
    ] == pytest.approx(1)
    assert reported["other"]["differences"]["0.5"]["proxy"]["pull_mean"]["difference"] == pytest.approx(-10)


def test_runs_that_cannot_be_compared_are_refused(golden: GoldenRun, other: Path, tmp_path: Path) -> None:
    alone = invoke("compare", golden.folder)
    assert alone.exit_code == 2 and says(alone.stderr, "compare", golden.folder)
    nowhere = invoke("compare", golden.folder, tmp_path)
    assert nowhere.exit_code == 1
    assert says_in_one_line(nowhere.stderr, "run.json", tmp_path)
    record = read_record(other)
    for block in record.blocks:
        block.load = 0.7
    record.write(other)
    unlike = invoke("compare", golden.folder, other)
    assert unlike.exit_code == 1 and says(unlike.stderr, "complete", "round")
    (other / "operations.parquet").unlink()
    assert says_in_one_line(invoke("compare", golden.folder, other).stderr, "operations.parquet", other)
