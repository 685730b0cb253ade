"""The result of a run on one screen: at most 30 lines of 80 columns, the verdict last."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from analysis.fitted_table import FittedTable
from analysis.record import RunRecord
from analysis.summary import Summary
from analysis.terminal import RESULT_WIDTH, WIDTH, print_result, render
from switch_harness.wording import says
from tests.harness.snapshots import assert_snapshot
from tests.harness.summaries import of_ratio
from tests.unit.analysis.test_record import MINIMAL_RECORD
from tests.unit.analysis.test_sentences import ANSWERS, capacity

MAX_LINES = 30
REPORT = Path("/home/someone/hotline/runs/20261124-205536-softswitch/report.html")


def shown(summary: Summary) -> list[str]:
    record = RunRecord.model_validate(MINIMAL_RECORD | {"config": {"workers": 4, "servers": 2}})
    output = io.StringIO()
    print_result(record, summary, REPORT, output)
    return output.getvalue().splitlines()


@pytest.mark.parametrize("name", ANSWERS)
def test_a_result_fits_a_screen(name: str) -> None:
    drifted = {"capacity_checks": capacity(end=100), "offered_rate": {"0.5": 100.0, "0.8": 160.0}}
    lines = shown(ANSWERS[name].model_copy(update=drifted))
    assert len(lines) <= MAX_LINES
    # Paths are not broken, so that a terminal opens them.
    assert all(len(line) <= RESULT_WIDTH for line in lines if "/home/" not in line)


def of_width(summary: Summary, width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(render(summary))
    return output.getvalue()


@pytest.mark.parametrize("width", [60, 80, WIDTH])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_narrow_terminal_shows_all_numbers_of_a_report(name: str, width: int) -> None:
    number = re.compile(r"[\d.,]*\d")
    wide, narrow = (of_width(ANSWERS[name], each) for each in (1_000, width))
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= width
    assert set(number.findall(wide)) <= set(number.findall(narrow))


def test_columns_that_do_not_fit_are_in_a_table_below() -> None:
    table = FittedTable(["key", "base"], ["first", "second", "third"], (0, 0, 0, 1))
    table.add_row("a", "100", "1", "2", "3")
    shown_by_width = {}
    for width in (17, 24, 80):
        output = io.StringIO()
        Console(file=output, width=width).print(table)
        shown_by_width[width] = [line.split() for line in output.getvalue().splitlines() if "─" not in line]
    columns = {"first": "1", "second": "2", "third": "3"}
    rows = [[["key", "base", *names], ["a", "100", *map(columns.get, names)]] for names in [
        ("first", "second"), ("third",), ("first",), ("second",), tuple(columns),
    ]]  # fmt: skip
    assert shown_by_width == {17: [*rows[2], *rows[3], *rows[1]], 24: [*rows[0], *rows[1]], 80: rows[4]}


def test_the_first_screens_of_all_results_equal_the_snapshot() -> None:
    texts = [f"# {name}\n" + "\n".join(shown(of)) for name, of in ANSWERS.items()]
    assert_snapshot(Path(__file__).with_name("results.txt"), "\n\n".join(texts))


def test_a_miss_of_the_simulation_is_no_miss_if_the_measurement_is_noise() -> None:
    """The baseline differed from its own repeat by more than offload did."""
    missed = ANSWERS["a dedicated switch"]
    assert any("simulation misses" in line for line in shown(missed))
    load = missed.loads["0.5"]
    null = {"repeat": {name: of_ratio(0.0, -0.9, 0.9) for name in load.differences["offload"]}}
    noisy = load.model_copy(update={"differences": load.differences | null})
    assert not any("misses" in line for line in shown(missed.model_copy(update={"loads": {"0.5": noisy}})))


def test_the_largest_drift_is_reported_with_its_time() -> None:
    drifted = {"capacity_checks": capacity(middle=250, end=190), "offered_rate": {"0.5": 100.0}}
    text = " ".join(" ".join(shown(ANSWERS["no null"].model_copy(update=drifted))).split())
    assert says(text, "25 %", "0.5", "0.4")
