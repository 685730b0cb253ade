"""Losses that a script reports: whose, how many, and how arms compare."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import polars as pl
import pytest

from analysis.learning import REPORTS_FILE, common_reports, compare_mean_losses, mean_log_losses, read_curves
from analysis.record import AnalysisError
from analysis.report import provenance_rows
from switch_harness.wording import says
from tests.unit.analysis.synthetic import SyntheticRun


def write(run: Path, *reports: tuple[str, int, float]) -> None:
    lines = [
        json.dumps({"arm": arm, "rank": rank, "report": 0, "metrics": {"loss": loss}})
        for arm, rank, loss in reports
    ]
    (run / REPORTS_FILE).write_text("\n".join(lines) + "\n")


def test_a_curve_is_the_mean_of_all_workers_that_report_as_far_as_all_have_come(tmp_path: Path) -> None:
    offload = [(0, 4.0), (1, 2.0), (0, 1.0), (1, 2.0), (0, 9.0)]
    write(tmp_path, *(("offload", *each) for each in offload), ("baseline", 1, 5.0))
    curves = read_curves(tmp_path)
    assert curves == {"baseline": [5.0], "offload": [3.0, 1.5]}
    assert common_reports(curves) == 1
    assert mean_log_losses(curves) == {}  # too few to be compared
    assert mean_log_losses({"baseline": [5.0] * 5, "offload": [3.0] * 6}) == pytest.approx(
        {"baseline": 1.6094, "offload": 1.0986}, abs=1e-4
    )
    assert mean_log_losses({"baseline": [5.0] * 4, "offload": [3.0] * 6}) == {}


def test_without_reports_there_is_no_curve(tmp_path: Path) -> None:
    assert read_curves(tmp_path) == {} and common_reports({}) == 0 and mean_log_losses({}) == {}


def test_losses_that_are_not_above_0_have_no_ratio(tmp_path: Path) -> None:
    write(tmp_path, *[("offload", 0, -4.0)] * 5, *[("baseline", 0, 5.0)] * 5)
    assert mean_log_losses(read_curves(tmp_path)) == {}


def test_arms_are_compared_over_the_reports_that_all_arms_have(tmp_path: Path) -> None:
    write(tmp_path, *[("baseline", 0, 2.0)] * 6, *[("offload", 0, 2.2)] * 5, *[("repeat", 0, 2.0)] * 9)
    found = compare_mean_losses(mean_log_losses(read_curves(tmp_path)))
    assert found["offload"].ratio == pytest.approx(0.1) and found["offload"].reference == pytest.approx(2.0)
    assert found["repeat"].ratio == pytest.approx(0.0) and exp(0.0) == 1.0


def test_a_line_that_is_no_report_is_named(tmp_path: Path) -> None:
    (tmp_path / REPORTS_FILE).write_text(
        '{"arm": "hot", "rank": 0, "metrics": {"loss": 1.0}}\n{"arm": "hot", "rank": 0, "loss": 1.0}\n'
    )
    with pytest.raises(AnalysisError, match=rf"{REPORTS_FILE}:2: "):
        read_curves(tmp_path)


def of_a_script(run: SyntheticRun, reports: int = 5) -> None:
    """Turn a run into a script's, with 100 steps/s in each arm and 200 steps/s in *offload*."""
    record = run.record
    record.config["script"] = "train.py --epochs 3"
    for block in record.blocks:
        block.steps, block.duration_ms = (200 if block.arm == "offload" else 100), 1_000.0
        block.loss = None
    record.offered_rate = {}
    record.ended_by = "script"
    arms = dict.fromkeys(block.arm for block in record.blocks)
    losses = {arm: [2.0, 2.0, 0.5, 0.5, 1.0][:reports] for arm in arms}
    losses["baseline"] = [*losses["baseline"], 9.0]
    losses["offload"] = [1.1 * loss for loss in losses["offload"]]
    write(run.folder, *[(arm, 0, loss) for arm, of_arm in losses.items() for loss in of_arm])


def test_a_script_s_run_reports_its_rates_and_its_losses(synthetic_run: SyntheticRun) -> None:
    of_a_script(synthetic_run)
    summary = synthetic_run.summary()
    assert summary.steps_per_s["baseline"] == pytest.approx(100) and summary.steps_per_s["offload"] == 200
    last = summary.last_reported
    assert (summary.reports, last["baseline"], last["offload"]) == (5, 1.0, 1.1)
    assert summary.learning["offload"].ratio == pytest.approx(0.1)
    assert summary.learning["offload"].reference == pytest.approx(1.0)
    ran = dict(provenance_rows(synthetic_run.record, summary))
    assert says(ran["script"], "train.py", "--epochs", 3)


def test_the_time_that_a_script_takes_to_end_is_in_no_rate(synthetic_run: SyntheticRun) -> None:
    of_a_script(synthetic_run)
    blocks = [block for block in synthetic_run.record.blocks if block.arm == "offload"]
    steps = pl.read_parquet(synthetic_run.folder / "operations.parquet").filter(
        pl.col("op").cast(pl.String) == "step", pl.col("arm").cast(pl.String) == "offload"
    )
    last_step_us = steps["end_us"].max()
    assert isinstance(last_step_us, int)
    # The last block's steps have taken a second, and then its script took 9 s to end.
    blocks[-1].begun_us, blocks[-1].ended_us = last_step_us - 1_000_000, last_step_us + 9_000_000
    blocks[-1].duration_ms = 10_000.0
    summary = synthetic_run.summary()
    assert summary.steps_per_s["offload"] == pytest.approx(200)


def test_the_loss_of_each_arm_is_drawn(synthetic_run: SyntheticRun) -> None:
    of_a_script(synthetic_run)
    synthetic_run.record.write(synthetic_run.folder)
    page = synthetic_run.page()
    assert 'id="loss"' in page and "0.55" in page[page.index('id="loss"') :]
    assert "first 5 reports" in page


def test_from_a_few_reports_no_model_is_compared(synthetic_run: SyntheticRun) -> None:
    of_a_script(synthetic_run, reports=4)
    summary = synthetic_run.summary()
    assert summary.learning == {} and summary.reports == 4
