"""Losses that a script reports: whose, how many, and how arms compare."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from analysis.learning import compared_courses
from analysis.reported import FILE, common_reports, courses, read_curves


def write(run: Path, *reports: tuple[str, int, float]) -> None:
    lines = [json.dumps({"arm": arm, "rank": rank, "report": 0, "loss": loss}) for arm, rank, loss in reports]
    (run / FILE).write_text("\n".join(lines) + "\n")


def test_a_curve_is_the_mean_of_all_workers_that_report_as_far_as_all_have_come(tmp_path: Path) -> None:
    write(tmp_path, ("hot", 0, 4.0), ("hot", 1, 2.0), ("hot", 0, 1.0), ("hot", 1, 2.0), ("hot", 0, 9.0),
          ("neither", 1, 5.0))  # fmt: skip
    curves = read_curves(tmp_path)
    assert curves == {"neither": [5.0], "hot": [3.0, 1.5]}
    assert common_reports(curves) == 1
    assert courses(curves) == pytest.approx({"neither": 1.6094, "hot": 1.0986}, abs=1e-4)


def test_without_reports_there_is_no_curve(tmp_path: Path) -> None:
    assert read_curves(tmp_path) == {} and common_reports({}) == 0 and courses({}) == {}


def test_losses_that_are_not_above_0_have_no_ratio(tmp_path: Path) -> None:
    write(tmp_path, ("hot", 0, -4.0), ("neither", 0, 5.0))
    assert courses(read_curves(tmp_path)) == {}


def test_arms_are_compared_over_what_all_have(tmp_path: Path) -> None:
    write(tmp_path, *[("neither", 0, 2.0)] * 3, *[("hot", 0, 2.2)] * 2, *[("again", 0, 2.0)] * 9)
    found = compared_courses(courses(read_curves(tmp_path)))
    assert found["hot"].ratio == pytest.approx(0.1) and found["hot"].baseline == pytest.approx(2.0)
    assert found["again"].ratio == pytest.approx(0.0) and exp(0.0) == 1.0


def test_a_line_that_is_no_report_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"arm": "hot", "rank": 0, "loss": 1.0}\n{"arm": "hot"}\n')
    with pytest.raises(AnalysisError, match=rf"{FILE}:2: "):
        read_curves(tmp_path)
