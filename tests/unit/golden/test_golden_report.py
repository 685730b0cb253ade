"""The golden run as people read it: the terminal as a whole, and the page's tables, colours and record."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from analysis.claims import Recommendation, answer
from analysis.figures.all import figures
from analysis.figures.figure_data import source_of_run
from analysis.forest import forest
from analysis.page.build import drawings
from analysis.report import (
    difference_tables,
    fact_sentences,
    measured_answer,
    paper_table,
    provenance_rows,
    result,
    worse_metrics,
    write_report,
)
from analysis.statistics import Comparison, compare_paired
from analysis.summary import Summary
from analysis.verdict import Verdict
from analysis.wording import sentence_text
from tests.harness.snapshots import assert_snapshot
from tests.harness.summaries import coloured, terminal
from tests.unit.golden.run import GoldenRun, in_the_kernel

BARE = dict.fromkeys(("low", "high", "ratio_low", "ratio_high"))


def rows_of(summary: Summary) -> dict[str, list[str]]:
    """Return the rows of the page's table of differences."""
    [table] = difference_tables(summary, "0.5")
    return {row[0]: row[1:] for row in table.texts()}


def sound(summary: Summary) -> Summary:
    updates = summary.updates.model_copy(update={"lost": 0, "mismatched_keys": 0})
    return summary.model_copy(update={"updates": updates, "overflows": 0, "dropped_rows": 0})


def with_differences(summary: Summary, found: dict[str, dict[str, Comparison]]) -> Summary:
    load = summary.loads["0.5"].model_copy(update={"differences": found})
    return summary.model_copy(update={"loads": {"0.5": load}})


def test_the_terminal_output_equals_the_snapshot(golden: GoldenRun) -> None:
    """`test_golden_summary.py` derives the numbers. Titles of classes of RPCs are set in below their sum."""
    assert_snapshot(Path(__file__).with_name("terminal.txt"), terminal(golden.summary))


def test_the_page_has_the_terminals_numbers(golden: GoldenRun) -> None:
    """The page adds the sign for per cent, and the differences of arm repeat."""
    lines = [re.split(r" {2,}", line) for line in terminal(golden.summary).splitlines()]
    on_terminal = {title: cells for title, *cells in lines if len(cells) == 5}
    rows = rows_of(golden.summary)
    assert len(rows) == 17
    for title, cells in rows.items():
        bare = [cell.replace(" %", "") for cell in cells]
        bare[1] = bare[1].partition(" ")[2]
        assert bare == on_terminal[title]
    # -10 of 519.2; -94 [-100, -81] of it; -110.
    assert rows["pull mean, µs"] == [
        "519", "+0.0 % [+0.0, +0.0]", "-1.9 % [-1.9, -1.9]", "-18 % [-19, -16]", "-21 % [-21, -21]",
    ]  # fmt: skip


def test_the_first_screen_has_the_servers_cpu_without_the_switch_and_the_cpu_of_all_agents(
    golden: GoldenRun,
) -> None:
    changes = {row.title: row.measured.change for row in forest(in_the_kernel(golden).summary, None)}
    titles = ["servers' CPU", "servers' CPU w/o switch", "workers' CPU", "CPU of all agents"]
    assert [title for title in changes if title in titles] == titles
    without, of_all = changes["servers' CPU w/o switch"], changes["CPU of all agents"]
    assert without is not None and of_all is not None
    # 350 µs, and 240 or, in one of ten rounds, 300; 900 µs, and 900 or, in that round, 1,050.
    assert without.ratio == pytest.approx((240 / 350) ** 0.9 * (300 / 350) ** 0.1 - 1)
    assert of_all.ratio == pytest.approx((1050 / 900) ** 0.1 - 1)


def test_cpu_is_reported_with_and_without_the_switch_in_the_kernel(golden: GoldenRun) -> None:
    run = in_the_kernel(golden)
    assert "…" not in terminal(run.summary)
    rows = rows_of(run.summary)
    assert [name for name in rows if "CPU" in name or "switch" in name] == [
        "PS_proc CPU, µs",
        "PS CPU/step, µs",
        "PS w/o switch",
        "worker CPU/step, µs",
        "worker w/o switch",
        "CPU of all agents",
    ]
    # 350 µs; of proxy 11.7 - 1.2 ms, of offload 240 or 300 µs, of offload-proxy 8.4 - 0.9 ms.
    assert rows["PS w/o switch"] == [
        "350", "+0.0 % [+0.0, +0.0]", "+0.0 % [+0.0, +0.0]", "-30 % [-31, -26]", "-29 % [-29, -29]",
    ]  # fmt: skip
    # 400 µs; of proxy 15.3 - 3 ms, of offload 440 or 480 µs, of offload-proxy 18.6 - 6 ms.
    assert rows["worker w/o switch"] == [
        "400", "+0.0 % [+0.0, +0.0]", "+2.5 % [+2.5, +2.5]", "+11 % [+10, +13]", "+5.0 % [+5.0, +5.0]",
    ]  # fmt: skip
    took = "24.3% of the workers' CPU time (0.33 cores) and 12.9% of the servers' (0.11 cores)"
    assert any(took in fact for fact in fact_sentences(run.summary))


class Page(HTMLParser):
    """Headings, list items, paragraphs and tables of a page, as text; tables by their captions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        tags = ("h1", "h2", "h3", "li", "p", "dt", "dd")
        self.parts: dict[str, list[str]] = {tag: [] for tag in tags}
        self.tables: dict[str, list[list[str]]] = {}
        self._captions: list[str] = []
        self._into: list[str] | None = None
        self.feed(text[: text.index("<script>")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.tables.setdefault(self._captions[-1], []).append([])
        into = {
            **self.parts,
            "caption": self._captions,
            **dict.fromkeys(("td", "th"), next(reversed(self.tables.values()), [[]])[-1]),
        }
        if tag in into:
            self._into = into[tag]
            self._into.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in (*self.parts, "td", "th", "caption"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data


def without_figures(golden: GoldenRun, summary: Summary) -> str:
    """Return the text of a page without its figures, which take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.report.figures", lambda sources, progress: [])
        return write_report(golden.folder, golden.record, summary).read_text()


def test_the_answer_comes_first_on_page_and_terminal_and_in_the_json(golden: GoldenRun) -> None:
    found, page = measured_answer(golden.summary), Page(without_figures(golden, golden.summary))
    first = result(golden.record, golden.summary)
    assert page.parts["h1"] == [first.title]
    assert page.parts["p"][1] == first.verdict == found.headline
    notes = len(first.notes)
    assert page.parts["li"][:notes] == list(first.notes)
    page.parts["li"] = page.parts["li"][notes:]
    assert page.parts["li"][: len(found.sentences)] == found.texts()
    losing = [sentence_text(line) for line in worse_metrics(golden.summary, "0.5")]
    facts = fact_sentences(golden.summary)
    assert page.parts["li"][len(found.sentences) : -2] == [*losing, *facts]
    words = " ".join(terminal(golden.summary).replace("•", "").split())
    assert words.startswith(" ".join([f"{found.title}:", found.headline, *found.texts(), "Load 0.5:"]))
    results = json.loads((golden.folder / "summary.json").read_text())
    assert results["answers"] == [
        {"title": found.title, "headline": found.headline, "is_trusted": False, "sentences": found.texts()}
    ]


def test_rows_that_are_missing_invalidate_times(golden: GoldenRun) -> None:
    found, whole = answer(golden.summary).claims, answer(sound(golden.summary)).claims
    assert {name: each.verdict for name, each in whole.items() if name in METRICS} == {
        "pull_mean": Verdict.LESS,
        "push_mean": Verdict.LESS,
        "ps_cpu_us_per_step": Verdict.LESS,
        # From 0 to 5 % more.
        "ps_packets_per_step": Verdict.CONTAINS_ZERO,
        "ps_bytes_per_step": Verdict.MORE,
        "rpcs_per_step": Verdict.MORE,
        "worker_cpu_us_per_step": Verdict.MORE,
        "loss": Verdict.CONTAINS_ZERO,
    }
    times = {name for name in found if found[name].metric.kind == "time"}
    assert {found[name].verdict for name in times} == {Verdict.DROPPED_ROWS}
    others = set(found) - times
    assert {name: found[name].verdict for name in others} == {name: whole[name].verdict for name in others}
    assert answer(sound(golden.summary)).recommendation is Recommendation.YES


METRICS = {
    "pull_mean", "push_mean", "ps_cpu_us_per_step", "ps_packets_per_step", "ps_bytes_per_step",
    "rpcs_per_step", "worker_cpu_us_per_step", "loss",
}  # fmt: skip


def test_the_page_reports_workload_network_and_hot_set(golden: GoldenRun) -> None:
    """300 steps an arm: of 6 RPCs in three arms, of 12 in two."""
    assert dict(provenance_rows(golden.record, golden.summary)) == {
        "workload": "R1: 144 parameters, 72 of them a step",
        "network": "3 workers, 2 parameter servers, one switch: softswitch",
        "hot set": "the 18 most updated parameters of a profile run, 12.5% of all",
        "load": "0.5: 1,234.5 steps/s of all workers",
        "measured": "1,500 steps, some 12,600 RPCs",
        "machine": "2 CPUs: 6.1",
        "placement": "p1 on 0",
        "emulator alone": "an empty RPC takes 150 µs (p50), 199 µs (p99)",
    }


def test_the_networks_drawing_has_the_runs_numbers(golden: GoldenRun) -> None:
    without, with_hot = drawings(golden.summary, golden.record)
    assert re.findall(r">([^<]+)</text>", without.svg) == [
        "3 workers", "pull 519 µs, push 719 µs",
        "switch", "forwards all of them; 8.0 µs an RPC",
        "2 parameter servers", "400 µs of CPU, 90 µs to process them",
        "6.0 RPCs", "6.0 packets",
    ]  # fmt: skip
    assert re.findall(r">([^<]+)</text>", with_hot.svg)[3:] == [
        "answers 6.0 of them; 7.0 µs an RPC",
        "2 parameter servers", "305 µs of CPU, 74 µs to process them",
        "12.0 RPCs", "6.1 packets",
    ]  # fmt: skip
    assert "12.0 RPCs a step, 6.1 packets to the servers" in with_hot.svg


def test_better_and_worse_are_distinguished(golden: GoldenRun) -> None:
    """Colour and sign agree: less is green, and a difference without a claim has no colour."""
    summary = sound(golden.summary)
    green, red = colours(summary)
    assert "-18 [-19, -16]" in green and "+22 [+20, +26]" in red
    assert not [cell for cell in green if cell[0] == "+"] and not [cell for cell in red if cell[0] == "-"]
    # From 0 to 5 % more packets.
    assert not [cell for cell in (*green, *red) if "+0.0" in cell]
    text = without_figures(golden, summary)
    assert '<span class="better">-18 % [-19, -16]</span>' in text
    assert '<span class="worse">+22 % [+20, +26]</span>' in text
    assert "<span>+1.6 % [+0.0, +5.3]</span>" in text


def colours(summary: Summary) -> tuple[list[str], list[str]]:
    """Return the cells of the terminal's tables that are green, and those that are red."""
    shown = coloured(summary)
    green, red = (re.findall(rf"\x1b\[{code}m([-+][^\x1b]*)\x1b\[0m", shown) for code in (32, 31))
    return green, red


def test_tables_have_no_colour_that_the_answer_does_not_bear(golden: GoldenRun) -> None:
    """Logs lack rows, so no difference in times is claimed."""
    green, _ = colours(golden.summary)
    assert "-18 [-19, -16]" not in green and "-24 [-25, -21]" in green
    text = without_figures(golden, golden.summary)
    assert "<span>-18 % [-19, -16]</span>" in text
    assert '<span class="better">-24 % [-25, -21]</span>' in text


def test_the_difference_of_the_repeat_is_neither_better_nor_worse(golden: GoldenRun) -> None:
    found = golden.summary.loads["0.5"].differences
    summary = with_differences(golden.summary, {**found, "repeat": found["offload"]})
    assert "  [-19, -16]" in re.sub(r"\x1b\[3[12]m.*?\x1b\[0m", "", coloured(summary))
    assert 'data-column="repeat"><span>-18 % [-19, -16]</span>' in without_figures(golden, summary)


def with_pull_mean(summary: Summary, **changes: float | None) -> Summary:
    """Return the summary with another mean pull of arm offload."""
    found = {arm: dict(metrics) for arm, metrics in summary.loads["0.5"].differences.items()}
    before = found["offload"]["pull_mean"]
    bounds = {
        name.removeprefix("ratio_"): None if ratio is None else ratio * before.reference
        for name, ratio in changes.items()
        if name in ("ratio_low", "ratio_high")
    }
    found["offload"]["pull_mean"] = before.model_copy(update=bounds | changes)
    return with_differences(summary, found)


@pytest.mark.parametrize(
    ("ratio", "on_terminal", "on_page"),
    [
        # Of few rounds there is no interval.
        ((-0.1, None, None), "-10", "-10 %"),
        ((0.0999, 0.0, 0.12), "+10 [+0.0, +12]", "+10 % [+0.0, +12]"),
        ((0.0994, 0.0, 0.12), "+9.9 [+0.0, +12]", "+9.9 % [+0.0, +12]"),
        ((0.1, -0.002, 19.26), "+10 [-0.2, ×20]", "+10 % [-0.2, ×20]"),
        ((19.26, 0.1, 21.0), "×20 [+10, ×22]", "×20 [+10, ×22]"),
    ],
)
def test_a_difference_is_shown_rounded_with_its_interval(
    golden: GoldenRun, ratio: tuple[float | None, ...], on_terminal: str, on_page: str
) -> None:
    names = ("ratio", "ratio_low", "ratio_high")
    summary = with_pull_mean(golden.summary, **dict(zip(names, ratio, strict=True)))
    [row] = [line for line in terminal(summary).splitlines() if line.startswith("pull mean")]
    assert re.split(r" {2,}", row)[4] == on_terminal
    assert rows_of(summary)["pull mean, µs"][3] == on_page


@pytest.mark.parametrize(("value", "shown"), [(0.0, "–"), (0.25, "0 → 0.25"), (4_251.3, "0 → 4,251")])
def test_a_difference_to_0_is_shown_by_its_values(golden: GoldenRun, value: float, shown: str) -> None:
    from_zero = compare_paired(np.full(6, value), np.zeros(6))
    summary = with_pull_mean(golden.summary, **from_zero.model_dump())
    [row] = [line for line in terminal(summary).splitlines() if line.startswith("pull mean")]
    assert re.split(r" {2,}", row)[4] == shown
    assert rows_of(summary)["pull mean, µs"][3] == shown


def test_missing_intervals_are_reported(golden: GoldenRun) -> None:
    full = golden.summary.loads["0.5"].differences
    bare = {
        arm: {name: each.model_copy(update=BARE) for name, each in metrics.items()}
        for arm, metrics in full.items()
    }
    for found, is_told in (
        (full, False),
        ({**bare, "offload-proxy": full["offload-proxy"]}, False),
        ({}, False),
        (bare, True),
    ):
        summary = with_differences(golden.summary, found)
        assert summary.loads["0.5"].lacks_intervals == is_told
    [note] = next(difference_tables(summary, "0.5")).notes
    page = Page(without_figures(golden, summary))
    # Below the table, and where offload might lose.
    assert [note in text for text in page.parts["p"]].count(True) == 2
    assert note in terminal(summary)


def test_offload_loses_where_the_whole_interval_is_above_the_baseline(golden: GoldenRun) -> None:
    def of_pull_mean(**changes: float | None) -> list[str]:
        summary = with_pull_mean(sound(golden.summary), **changes)
        lines = [sentence_text(line) for line in worse_metrics(summary, "0.5")]
        parts = [part for line in lines if "offload" in line for part in line.split(", ")]
        return [part for part in parts if "pull mean" in part]

    [reported] = of_pull_mean(ratio=0.07, ratio_low=0.005, ratio_high=0.09)
    assert "+7.0 % [+0.5" in reported
    for low in (0.0, -0.01, None):
        assert of_pull_mean(ratio=0.07, ratio_low=low, ratio_high=0.09) == []


def test_a_load_without_a_complete_round_has_no_differences(golden: GoldenRun) -> None:
    summary = with_differences(golden.summary, {})
    [table] = difference_tables(summary, "0.5")
    assert (table.columns, table.rows, len(table.notes)) == (("", "baseline"), [], 1)
    page = Page(without_figures(golden, summary))
    assert page.tables[table.title] == [["", "baseline"]] and table.notes[0] in page.parts["p"]
    assert "pull mean, µs" not in terminal(summary)


def terminal_of_width(columns: int, summary: Summary, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name, value in (("COLUMNS", str(columns)), ("FORCE_COLOR", "1"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal(summary)).splitlines()


@pytest.mark.parametrize(("columns", "widest"), [(80, 80), (100, 100), (300, 100)])
def test_a_terminal_is_used_to_its_width_but_not_beyond_100(
    golden: GoldenRun, monkeypatch: pytest.MonkeyPatch, columns: int, widest: int
) -> None:
    """Long facts are what fills a line."""
    lines = terminal_of_width(columns, golden.summary, monkeypatch)
    assert widest - 20 < max(map(len, lines)) <= widest


def test_a_tables_row_is_a_line_with_its_numbers_to_the_right(
    golden: GoldenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal that is too narrow, cells are cut and not broken."""
    for columns in (100, 70):
        shown = terminal_of_width(columns, golden.summary, monkeypatch)
        lines = [line.rstrip() for line in shown]
        first = next(index for index, line in enumerate(lines) if "pull mean" in line)
        rows = lines[first : first + 3]
        assert [title in row for title, row in zip(("mean", "p50", "p95"), rows, strict=True)] == [True] * 3
        # The last column ends at one place, below its head.
        assert {len(row) for row in rows} == {len(lines[first - 2])}


def test_a_file_is_100_columns_wide(golden: GoldenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert 80 < max(map(len, terminal(golden.summary).splitlines())) <= 100


def test_the_page_is_whole_and_has_the_record(golden: GoldenRun) -> None:
    record = golden.record.model_copy(update={"target": "<b>&"})
    path = write_report(golden.folder, record, golden.summary)
    assert path == golden.folder / "report.html"
    text = path.read_text()
    assert '<p class="about">Run 20260102-030405, with &lt;b&gt;&amp; as the switch</p>' in text
    found = re.search(r'<pre tabindex="0">(.*)</pre>', text, re.DOTALL)
    assert found is not None
    shown = json.loads(unescape(found[1]))
    assert shown == json.loads(
        record.model_dump_json(exclude={"blocks", "repeated_blocks", "recorded_design"})
    )
    assert '\n  "target": "<b>&",\n' in unescape(found[1])
    # A heading below "Figures" for each, and one for where offload loses.
    page = Page(text)
    assert len(page.parts["h3"]) == 1 + len(list(figures([source_of_run(golden.folder)])))
    assert len(page.parts["h2"]) == len(set(page.parts["h2"])) == 9


def test_a_report_of_a_running_run_leaves_its_parts(golden: GoldenRun) -> None:
    """With CLI=1 it is written while the agents still have their parts to write."""
    parts = golden.folder / "parts"
    parts.mkdir(exist_ok=True)
    try:
        without_figures(golden, golden.summary)
        assert parts.is_dir()
    finally:
        parts.rmdir()


def test_the_papers_findings_stand_beside_the_runs(golden: GoldenRun) -> None:
    """They are of all arms but the repeat; reductions are positive."""
    source = source_of_run(golden.folder)
    table = paper_table(source, list(figures([source])), golden.summary)
    with_arms = [f"here, with {arm}" for arm in ("offload", "proxy", "offload-proxy")]
    assert table.columns == ("", "paper", "here, without", *with_arms)

    def of(*words: str) -> list[str]:
        """Return the cells of the row whose title has these words."""
        [found] = [cells for title, *cells in table.texts() if all(word in title for word in words)]
        return found

    assert of("pull", "Fig. 5")[:2] == ["PS_proc, N_tx", "N_tx 69 %, PS_proc 18 %"]
    assert of("pull, push", "Fig. 6")[1] == "184 B, 56 B"
    # 40 µs of either.
    assert of("arithmetic", "PS_proc")[1] == "below noise"
    assert of("20,000", "R1")[1:] == ["100.0 %", "–", "–", "–"]
    assert of("reads and writes")[1:] == ["–", "25.0 %", "–", "–"]
    # 2.1 ms of 2.7 in nine rounds and 3.3 in one; 2.64; 1.8.
    assert of("PS_proc", "CPU time")[1:] == ["–", "18.6 %", "2.2 %", "33.3 %"]
    # Seven packets of six in one round of ten.
    assert of("packets to the servers")[1:] == ["–", "−1.6 %", "0.0 %", "0.0 %"]
