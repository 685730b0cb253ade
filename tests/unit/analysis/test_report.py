"""The page and the terminal table."""

from __future__ import annotations

from html.parser import HTMLParser

import polars as pl
import pytest

from analysis.page.build import Page as BuiltPage
from analysis.page.build import build
from analysis.report import difference_tables, worse_metrics
from analysis.wording import AnswerText, plain, sentence_text
from switch_harness.wording import says
from tests.harness.arms import MEASURED
from tests.harness.cli import invoke
from tests.harness.summaries import terminal
from tests.unit.analysis.synthetic import SyntheticRun


class Page(HTMLParser):
    """Collects tags, and every reference that leaves the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and value and not value.startswith(("#", "data:"))
        ]


def test_report_has_tables_and_figures_and_needs_nothing_else(synthetic_run: SyntheticRun) -> None:
    page, text = Page(), synthetic_run.page()
    page.feed(text[: text.index("<script>")])
    assert page.tags.count("svg") == 2
    # Of the loads, the paper's, and one below each figure.
    assert page.tags.count("table") == 2 + 1 + page.tags.count("section") - 1
    assert page.references == []


def test_answers_follow_each_other_on_the_page() -> None:
    def an_answer(name: str, is_trusted: bool) -> AnswerText:
        saves = plain(f"{name} saves.")
        return AnswerText(title=name, headline=f"{name}!", is_trusted=is_trusted, sentences=(saves,))

    answers = [an_answer("dedicated", True), an_answer("here", False)]
    text = build(BuiltPage(title="run", plots=(), answers=answers))
    expected = ["dedicated", "dedicated!", "dedicated saves.", "here", "here!", "here saves."]
    places = [text.index(f">{each}</") for each in expected]
    assert places == sorted(places)


def test_the_cost_of_durability_has_a_separate_table(synthetic_run: SyntheticRun) -> None:
    assert "What durability costs" not in synthetic_run.page()
    synthetic_run.record.config["recovery"] = {"journal_sync": "never"}
    page = synthetic_run.page()
    assert "<h2>What durability costs</h2>" in page
    assert "with journal_sync never" in page


def test_report_names_where_offload_loses(synthetic_run: SyntheticRun) -> None:
    for block in synthetic_run.record.blocks:
        if block.arm == "offload":
            block.servers.packets = 900
    summary = synthetic_run.summary()
    lines = [sentence_text(line) for name in summary.loads for line in worse_metrics(summary, name)]
    assert lines == [
        "Load 0.5, offload: packets to PS a step +125 % [+125, +125].",
        "Load 0.8, offload: packets to PS a step +125 % [+125, +125].",
    ]


@pytest.mark.parametrize("slowest", [1.0, 10_000.0])
def test_table_fits_100_columns_and_is_not_cut(synthetic_run: SyntheticRun, slowest: float) -> None:
    """Erratic rounds make intervals of thousands of per cent; the table must not be cut for them."""
    # Not `to_physical`: the code of a category depends on what the process has read before.
    numbers = {arm: number for number, arm in enumerate(MEASURED)}
    number = pl.col("arm").cast(pl.String).replace_strict(numbers, return_dtype=pl.Float64)
    erratic = pl.lit(slowest) ** (7 * pl.col("round") + 3 * number).sin().abs()
    synthetic_run.change("operations", lambda rows: rows.with_columns(pl.col("latency_us") * erratic))
    text = terminal(synthetic_run.summary())
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    assert says(text, "0.8", "160.0", "steps/s", 6, "95 %")
    assert says(text, "1,000", 990, 0, 10)


def test_one_slow_round_of_six_counts_as_one_ratio(synthetic_run: SyntheticRun) -> None:
    """One round has the ratio 1/1,000, the others 1; the geometric mean is 10^(-3/6)."""
    erratic = pl.when((pl.col("round") == 0) & (pl.col("arm") == "baseline")).then(1000).otherwise(1)
    synthetic_run.change("operations", lambda rows: rows.with_columns(pl.col("latency_us") * erratic))
    shown = terminal(synthetic_run.summary()).splitlines()
    [row] = {line for line in shown if line.strip().startswith("push mean")}
    again, others = ["[-100,", "+0.0]"], ["-68", "[-100,", "+0.0]"]
    assert row.split() == ["push", "mean,", "µs", "2,530", *again, *others * 3]


def test_too_few_rounds_have_no_intervals(synthetic_run: SyntheticRun) -> None:
    for name in ("operations", "rpc"):
        synthetic_run.change(name, lambda rows: rows.filter(pl.col("round") < 4))
    synthetic_run.record.blocks = [block for block in synthetic_run.record.blocks if block.round < 4]
    summary = synthetic_run.summary()
    assert all(load.lacks_intervals for load in summary.loads.values())
    lines = terminal(summary).splitlines()
    [row, _] = [line for line in lines if line.strip().startswith("packets to PS/step")]
    assert row.split()[3:] == ["20.0", "+0.0", "+0.0", "+0.0", "+0.0"]
    [note] = next(difference_tables(summary, "0.5")).notes
    assert lines.count(note) == 2
    assert synthetic_run.page().count(f"<p>{note}") == 2


def test_command_names_a_run_that_did_not_finish(synthetic_run: SyntheticRun) -> None:
    synthetic_run.record.model_copy(update={"accounting": None, "error": "worker-2 died"}).write(
        synthetic_run.folder
    )
    result = invoke("report", synthetic_run.folder)
    assert result.exit_code == 1
    assert says(result.output, "worker-2", "report")
