"""The golden run as people read it: the terminal's tables and the page, each number with its unit."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from analysis.disturbance import bounds
from analysis.facts import facts
from analysis.report import losses, write_report
from analysis.summary import Summary
from analysis.table import print_summary, render
from tests.unit.golden.run import GoldenRun, in_the_kernel


@pytest.fixture(scope="module")
def terminal(golden: GoldenRun) -> str:
    output = io.StringIO()
    print_summary(golden.summary, output)
    return output.getvalue()


def table(text: str, title: str) -> dict[str, list[str]]:
    """The rows of the table below a title, by their first cell."""
    lines = text[text.index(title) :].splitlines()[1:]
    cells = [re.split(r" {2,}", line.strip()) for line in lines]
    head = next(
        index for index, line in enumerate(cells) if line == ["neither", "again", "proxy", "hot", "both"]
    )
    found = {}
    for row in cells[head + 2 :]:
        if len(row) < 6:
            break
        found[row[0]] = row[1:]
    return found


def test_the_terminals_differences(terminal: str) -> None:
    """Percentages of the baseline; two digits below 10, whole numbers above."""
    assert table(terminal, "Load 0.5: 1,234.5 steps/s, 10 rounds; differences to neither in %") == {
        # -10 of 519.2; -94 [-100, -81] of it; -110.
        "pull mean, µs": ["519", "[+0.0, +0.0]", "-1.9 [-1.9, -1.9]", "-18 [-19, -16]", "-21 [-21, -21]"],
        "pull p50, µs": ["510", "[+0.0, +0.0]", "-2.0 [-2.0, -2.0]", "-19 [-20, -16]", "-22 [-22, -22]"],
        "pull p95, µs": ["560", "[+0.0, +0.0]", "-1.8 [-1.8, -1.8]", "-17 [-18, -14]", "-20 [-20, -20]"],
        "pull p99, µs": ["810", "[+0.0, +0.0]", "-1.2 [-1.2, -1.2]", "-12 [-12, -9.9]", "-14 [-14, -14]"],
        "push mean, µs": ["719", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "-34 [-35, -32]", "-36 [-36, -36]"],
        "push p50, µs": ["710", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "-34 [-35, -33]", "-37 [-37, -37]"],
        "push p95, µs": ["760", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "-32 [-33, -30]", "-34 [-34, -34]"],
        "push p99, µs": ["1,010", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "-24 [-25, -23]", "-26 [-26, -26]"],
        "step mean, µs": [
            "5,719",
            "[+0.0, +0.0]",
            "+0.0 [+0.0, +0.0]",
            "-4.3 [-4.4, -4.0]",
            "-4.5 [-4.5, -4.5]",
        ],
        # -45 [-50, -32] of 219.2.
        "RPC mean, µs": ["219", "[+0.0, +0.0]", "-3.6 [-3.6, -3.6]", "-20 [-23, -15]", "-23 [-23, -23]"],
        "PS_proc CPU, µs/step": [
            "90",
            "[+0.0, +0.0]",
            "-2.2 [-2.2, -2.2]",
            "-19 [-22, -9.6]",
            "-33 [-33, -33]",
        ],
        # -95 [-100, -84] of 400.
        "PS CPU, µs/step": ["400", "[+0.0, +0.0]", "-2.5 [-2.5, -2.5]", "-24 [-25, -21]", "-30 [-30, -30]"],
        "packets to PS/step": [
            "6.0",
            "[+0.0, +0.0]",
            "+0.0 [+0.0, +0.0]",
            "+1.6 [+0.0, +5.3]",
            "+0.0 [+0.0, +0.0]",
        ],
        "bytes to PS/step": [
            "1,776",
            "[+0.0, +0.0]",
            "+0.0 [+0.0, +0.0]",
            "+2.1 [+1.6, +3.3]",
            "+1.6 [+1.6, +1.6]",
        ],
        "RPCs a step": ["6.0", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "+100 [+100, +100]", "+100 [+100, +100]"],
        "worker CPU, µs/step": [
            "500",
            "[+0.0, +0.0]",
            "+2.0 [+2.0, +2.0]",
            "+22 [+20, +26]",
            "+24 [+24, +24]",
        ],
        "mean log loss": ["0.5000", "+0.0", "+0.0", "+5.8", "+2.0"],
    }


def test_with_the_switch_in_the_kernel_cpu_is_told_with_and_without_it(golden: GoldenRun) -> None:
    run = in_the_kernel(golden)
    output = io.StringIO()
    print_summary(run.summary, output)
    rows = table(output.getvalue(), "Load 0.5: 1,234.5 steps/s, 10 rounds; differences to neither in %")
    assert [name for name in rows if "CPU" in name or "switch" in name] == [
        "PS_proc CPU, µs/step",
        "PS CPU, µs/step",
        "PS w/o switch",
        "worker CPU, µs/step",
        "worker w/o switch",
    ]
    # 350 µs; of proxy 11.7 - 1.2 ms, of hot 240 or 300 µs, of both 8.4 - 0.9 ms.
    assert rows["PS w/o switch"] == [
        "350", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "-30 [-31, -26]", "-29 [-29, -29]",
    ]  # fmt: skip
    # 400 µs; of proxy 15.3 - 3 ms, of hot 440 or 480 µs, of both 18.6 - 6 ms.
    assert rows["worker w/o switch"] == [
        "400", "[+0.0, +0.0]", "+2.5 [+2.5, +2.5]", "+11 [+10, +13]", "+5.0 [+5.0, +5.0]",
    ]  # fmt: skip
    page = Page(without_figures(run, run.summary))
    row = ["worker w/o switch", "400", "+0 [+0, +0]", "+10 [+10, +10]", "+44 [+40, +53]", "+20 [+20, +20]"]
    assert row in page.rows
    # 1.8 ms for 1,500 frames.
    title = "Run 20260102-030405 on softswitch (datapath kernel, 1.2 µs of senders' CPU a frame)"
    assert page.parts["h1"] == [title]
    assert (
        "The switch ran on its senders' cores: 24.3% of the workers' CPU time and 12.9% of the servers' "
        "is its program's."
    ) in page.parts["li"]


def test_the_terminals_breakdown(terminal: str) -> None:
    """Numbers of RPCs a step by class, times their mean latency, and the five metrics, in µs."""
    assert table(terminal, "All loads: RPCs and their latency, means in µs") == {
        "steps": ["300", "300", "300", "300", "300"],
        "RPCs a step": ["6.0", "6.0", "6.0", "12.0", "12.0"],
        "all-hit × latency": ["0.0 × –", "0.0 × –", "0.0 × –", "6.0 × 95", "6.0 × 89"],
        "mixed × latency": ["0.0 × –", "0.0 × –", "0.0 × –", "2.0 × 315", "2.0 × 309"],
        "cold × latency": ["6.0 × 219", "6.0 × 219", "6.0 × 211", "4.0 × 225", "4.0 × 219"],
        "w_proc": ["3.0", "3.0", "3.0", "3.0", "3.0"],
        "w_queue": ["6.0", "6.0", "6.0", "5.0", "5.0"],
        "ps_proc": ["40.0", "40.0", "40.0", "25.0", "25.0"],
        "ps_queue": ["20.0", "20.0", "12.0", "11.0", "11.0"],
        "n_tx": ["150.2", "150.2", "150.2", "131.2", "125.2"],
        "switch": ["8.0", "8.0", "8.0", "7.0", "7.0"],
    }
    # Classes of RPCs are set in below their sum.
    assert "\nRPCs a step " in terminal and "\n  all-hit × latency " in terminal


VERDICT = (
    "Load 0.5, on 2 CPUs, against neither: "
    "proxy: pulls 1.9% sooner [-1.9%, -1.9%], pushes no difference [+0.0%, +0.0%]; "
    "hot: pulls 18.2% sooner [-19.3%, -15.6%], pushes 34.0% sooner [-34.8%, -32.1%]; "
    "both: pulls 21.2% sooner [-21.2%, -21.2%], pushes 36.2% sooner [-36.2%, -36.2%]."
)
RUN_FACTS = [
    VERDICT,
    "Rounds went on until the intervals of pull and push were below ±3% (p99: ±10%); the widest interval: "
    "load 0.5, hot, pull mean, ±1.8%.",
    "At load 0.5 a block has 25 measured steps, and 100 were wanted: its p99 is its slowest.",
    "3 blocks disturbed and run again (hot: steal 2, lateness 1; proxy: steal 1); 1 disturbed to the last, "
    "and counted.",
    f"Disturbed is: {bounds()}.",
    # Of neither and again the mean.
    "Capacity, steps/s in a closed loop: neither 198, proxy 201, hot 202, both 203. "
    "Loads are fractions of the least.",
    # 200 and 196; 192 in hot; 160 and 190.
    "WARNING: capacity has drifted, and loads are fractions of the first. The least was 198 steps/s "
    "at first, 192 in the middle (-3%), 175 at the end (-12%).",
]
FACTS = [
    "The switch served 25.0% of the pushed lanes in arm hot.",
    "Updates: 86,400 lanes sent, 86,393 applied, 4 lost, 3 unknown; 2 keys differ; 5 overflows.",
    "Mean log loss of the last round: 0.5060; by the labels' frequency alone: 0.6900.",
    "An empty RPC, through switch and PS: p50 150 µs, p99 199 µs.",
    "At load 0.5 the load generator fell behind in 2 of 10 rounds.",
]


def test_the_terminals_facts(terminal: str) -> None:
    """Those that are longer than a line go on in the next."""
    assert all(fact in terminal.splitlines() for fact in FACTS)
    assert all(fact in " ".join(terminal.split()) for fact in RUN_FACTS)


class Page(HTMLParser):
    """Headings, list items, paragraphs and table rows of a page, as text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts: dict[str, list[str]] = {"h1": [], "h2": [], "li": [], "p": []}
        self.rows: list[list[str]] = []
        self._into: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in self.parts or tag in ("td", "th"):
            self._into = self.parts.get(tag, self.rows[-1] if self.rows else None)
            assert self._into is not None
            self._into.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.parts or tag in ("td", "th"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data


@pytest.fixture(scope="module")
def page(golden: GoldenRun) -> Page:
    return Page(write_report(golden.folder, golden.record, golden.summary).read_text())


def without_figures(golden: GoldenRun, summary: Summary) -> str:
    """The page's text; to draw takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.report.figures", lambda run, summary: {})
        return write_report(golden.folder, golden.record, summary).read_text()


def test_the_pages_differences(page: Page) -> None:
    """In the metric's own unit, where the terminal has percentages."""
    assert page.parts["p"][0] == "1,234.5 steps/s offered, 10 rounds; differences to neither."
    assert page.rows == [
        ["", "neither", "again", "proxy", "hot", "both"],
        ["pull mean, µs", "519", "+0 [+0, +0]", "-10 [-10, -10]", "-94 [-100, -81]", "-110 [-110, -110]"],
        ["pull p50, µs", "510", "+0 [+0, +0]", "-10 [-10, -10]", "-94 [-100, -81]", "-110 [-110, -110]"],
        ["pull p95, µs", "560", "+0 [+0, +0]", "-10 [-10, -10]", "-94 [-100, -81]", "-110 [-110, -110]"],
        ["pull p99, µs", "810", "+0 [+0, +0]", "-10 [-10, -10]", "-94 [-100, -81]", "-110 [-110, -110]"],
        ["push mean, µs", "719", "+0 [+0, +0]", "+0 [+0, +0]", "-244 [-250, -231]", "-260 [-260, -260]"],
        ["push p50, µs", "710", "+0 [+0, +0]", "+0 [+0, +0]", "-244 [-250, -231]", "-260 [-260, -260]"],
        ["push p95, µs", "760", "+0 [+0, +0]", "+0 [+0, +0]", "-244 [-250, -231]", "-260 [-260, -260]"],
        ["push p99, µs", "1,010", "+0 [+0, +0]", "+0 [+0, +0]", "-244 [-250, -231]", "-260 [-260, -260]"],
        ["step mean, µs", "5,719", "+0 [+0, +0]", "+0 [+0, +0]", "-244 [-250, -230]", "-260 [-260, -260]"],
        ["RPC mean, µs", "219", "+0 [+0, +0]", "-8 [-8, -8]", "-45 [-50, -32]", "-50 [-50, -50]"],
        ["PS_proc CPU, µs/step", "90", "+0 [+0, +0]", "-2 [-2, -2]", "-17 [-20, -9]", "-30 [-30, -30]"],
        ["PS CPU, µs/step", "400", "+0 [+0, +0]", "-10 [-10, -10]", "-95 [-100, -84]", "-120 [-120, -120]"],
        [
            "packets to PS/step",
            "6.0",
            "+0.0 [+0.0, +0.0]",
            "+0.0 [+0.0, +0.0]",
            "+0.1 [+0.0, +0.3]",
            "+0.0 [+0.0, +0.0]",
        ],
        ["bytes to PS/step", "1,776", "+0 [+0, +0]", "+0 [+0, +0]", "+37 [+28, +58]", "+28 [+28, +28]"],
        [
            "RPCs a step",
            "6.0",
            "+0.0 [+0.0, +0.0]",
            "+0.0 [+0.0, +0.0]",
            "+6.0 [+6.0, +6.0]",
            "+6.0 [+6.0, +6.0]",
        ],
        [
            "worker CPU, µs/step",
            "500",
            "+0 [+0, +0]",
            "+10 [+10, +10]",
            "+109 [+100, +132]",
            "+120 [+120, +120]",
        ],
        ["mean log loss", "0.5000", "+0.0000", "+0.0000", "+0.0292", "+0.0100"],
    ]


def test_the_pages_facts_and_where_offload_loses(page: Page) -> None:
    assert page.parts["h1"] == ["Run 20260102-030405 on softswitch"]
    assert page.parts["li"] == [
        *RUN_FACTS,
        *FACTS,
        "Load 0.5, hot: bytes to PS/step is 37 above neither's 1,776.",
        "Load 0.5, hot: RPCs a step is 6.0 above neither's 6.0.",
        "Load 0.5, hot: worker CPU, µs/step is 109 above neither's 500.",
        "Load 0.5, both: bytes to PS/step is 28 above neither's 1,776.",
        "Load 0.5, both: RPCs a step is 6.0 above neither's 6.0.",
        "Load 0.5, both: worker CPU, µs/step is 120 above neither's 500.",
    ]


def test_differences_that_leave_out_zero_stand_out(golden: GoldenRun) -> None:
    """On the terminal in bold, on the page by their class."""
    output = io.StringIO()
    Console(file=output, force_terminal=True, color_system="standard", width=100).print(
        render(golden.summary)
    )
    bold = re.findall(r"\x1b\[1m([-+][^\x1b]*)\x1b\[0m", output.getvalue())
    assert "-18 [-19, -16]" in bold and "+22 [+20, +26]" in bold
    # From 0 to 5 % more packets.
    assert not [cell for cell in bold if "+0.0" in cell]
    page = without_figures(golden, golden.summary)
    assert '<td><span class="clear">-94</span> <span class="interval">[-100, -81]</span></td>' in page
    assert '<td><span>+0.1</span> <span class="interval">[+0.0, +0.3]</span></td>' in page


def with_pull_mean(summary: Summary, **changes: float | None) -> Summary:
    """The summary with another mean pull of arm hot."""
    load = summary.loads["0.5"]
    differences = {arm: dict(metrics) for arm, metrics in load.differences.items()}
    differences["hot"]["pull_mean"] = differences["hot"]["pull_mean"].model_copy(update=changes)
    return summary.model_copy(update={"loads": {"0.5": load.model_copy(update={"differences": differences})}})


@pytest.mark.parametrize(
    ("difference", "ratio", "terminal", "page"),
    [
        # Of few rounds there is no interval, of nothing no percentage.
        ((-94.0, None, None), (-0.1, None, None), "-10", "-94"),
        ((-94.0, -99.5, 3.0), (None, None, None), "–", "-94 [-100, +3]"),
        ((51.8, 0.0, 51.9), (0.0999, 0.0, 0.12), "+10.0 [+0.0, +12]", "+52 [+0, +52]"),
        ((51.8, 1.0, 9_999.0), (0.1, -0.002, 19.26), "+10 [-0.2, ×20]", "+52 [+1, +9,999]"),
    ],
)
def test_a_difference_as_it_is_shown(
    golden: GoldenRun,
    difference: tuple[float | None, ...],
    ratio: tuple[float | None, ...],
    terminal: str,
    page: str,
) -> None:
    names = ("difference", "low", "high", "ratio", "ratio_low", "ratio_high")
    summary = with_pull_mean(golden.summary, **dict(zip(names, (*difference, *ratio), strict=True)))
    output = io.StringIO()
    print_summary(summary, output)
    assert table(output.getvalue(), "Load 0.5")["pull mean, µs"][3] == terminal
    assert Page(without_figures(golden, summary)).rows[1][4] == page


NO_INTERVALS = "No 95 % intervals: they take 6 complete rounds; from fewer they would be too narrow."


def test_where_no_difference_has_an_interval_that_is_told(golden: GoldenRun) -> None:
    load = golden.summary.loads["0.5"]
    bare = {
        arm: {name: each.model_copy(update={"low": None, "high": None}) for name, each in metrics.items()}
        for arm, metrics in load.differences.items()
    }
    but_one = {**bare, "both": load.differences["both"]}
    for differences, told in ((load.differences, False), (but_one, False), ({}, False), (bare, True)):
        changed = load.model_copy(update={"differences": differences})
        summary = golden.summary.model_copy(update={"loads": {"0.5": changed}})
        output = io.StringIO()
        print_summary(summary, output)
        assert (NO_INTERVALS in output.getvalue()) == told
        assert (NO_INTERVALS in Page(without_figures(golden, summary)).parts["p"]) == told


def test_offload_loses_where_the_whole_interval_is_above_the_baseline(golden: GoldenRun) -> None:
    def of_pull_mean(**changes: float | None) -> list[str]:
        return [line for line in losses(with_pull_mean(golden.summary, **changes)) if "pull mean" in line]

    assert of_pull_mean(difference=7.0, low=0.5, high=9.0) == [
        "Load 0.5, hot: pull mean, µs is 7 above neither's 519."
    ]
    for low in (0.0, -1.0, None):
        assert of_pull_mean(difference=7.0, low=low, high=9.0) == []


def test_rounds_that_bear_no_intervals_cannot_tell_where_offload_loses(golden: GoldenRun) -> None:
    differences = {
        arm: {
            name: each.model_copy(update=dict.fromkeys(("low", "high", "ratio_low", "ratio_high")))
            for name, each in metrics.items()
        }
        for arm, metrics in golden.summary.loads["0.5"].differences.items()
    }
    load = golden.summary.loads["0.5"].model_copy(update={"differences": differences})
    summary = golden.summary.model_copy(update={"loads": {"0.5": load}})
    assert f"These rounds cannot tell. {NO_INTERVALS}" in Page(without_figures(golden, summary)).parts["p"]


def test_a_phone_shows_the_page_at_its_own_width_and_wide_tables_scroll(golden: GoldenRun) -> None:
    text = without_figures(golden, golden.summary)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert text.count('<div class="wide"><table>') == text.count("<table>") > 0
    assert ".wide { overflow-x: auto; }" in text


def test_a_load_without_a_complete_round(golden: GoldenRun) -> None:
    load = golden.summary.loads["0.5"].model_copy(update={"differences": {}})
    summary = golden.summary.model_copy(update={"loads": {"0.5": load}})
    text = without_figures(golden, summary)
    assert Page(text).parts["p"][:2] == ["No round is complete.", "Nowhere that these rounds can tell."]
    assert Page(text).rows == []
    output = io.StringIO()
    print_summary(summary, output)
    assert "pull mean, µs" not in output.getvalue()


@pytest.mark.parametrize(("columns", "widest"), [(80, 80), (100, 100), (300, 100)])
def test_a_terminal_is_used_to_its_width_but_not_beyond_100(
    golden: GoldenRun, monkeypatch: pytest.MonkeyPatch, columns: int, widest: int
) -> None:
    """Long facts are what fills a line."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    output = io.StringIO()
    print_summary(golden.summary, output)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in output.getvalue().splitlines()]
    assert widest - 20 < max(map(len, lines)) <= widest


def test_a_tables_row_is_a_line_with_its_numbers_to_the_right(
    golden: GoldenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the terminal is too narrow: then cells are cut, and not broken."""
    for columns in (100, 70):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        output = io.StringIO()
        print_summary(golden.summary, output)
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.getvalue().splitlines()]
        first = next(index for index, line in enumerate(lines) if "pull mean" in line)
        rows = lines[first : first + 3]
        assert [title in row for title, row in zip(("mean", "p50", "p95"), rows, strict=True)] == [True] * 3
        # The last column ends at one place, below its head.
        assert {len(row) for row in rows} == {len(lines[first - 2])}


def test_a_file_is_100_columns_wide(golden: GoldenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    output = io.StringIO()
    print_summary(golden.summary, output)
    assert 80 < max(map(len, output.getvalue().splitlines())) <= 100


@pytest.mark.parametrize(
    ("changes", "fact", "told"),
    [
        ({"hot_update_share": None}, "The switch served", None),
        ({"hot_update_share": 0}, "served", "The switch served 0.0% of the pushed lanes in arm hot."),
        ({}, "was changed", None),
        (
            {"changed_arms": ["neither", "hot"]},
            "was changed",
            "WARNING: offload or proxy of neither, hot was changed meanwhile; "
            "these numbers are not of that arm.",
        ),
        ({"last_loss": None}, "loss", None),
        ({"chance_loss": None}, "loss", None),
        ({"chance_loss": 0.0}, "loss", None),
        (
            {"last_loss": 0.69},
            "loss",
            "WARNING: the model has learned nothing. Mean log loss of the last round: 0.6900; by the labels' "
            "frequency alone: 0.6900. Try another learning_rate, or more rounds.",
        ),
    ],
)
def test_facts_that_depend(golden: GoldenRun, changes: dict[str, Any], fact: str, told: str | None) -> None:
    lines = [line for line in facts(golden.summary.model_copy(update=changes)) if fact in line]
    assert lines == ([] if told is None else [told])


def test_no_empty_rpcs_and_no_round_behind_are_not_told(golden: GoldenRun) -> None:
    nothing = golden.summary.empty_rpc_latency_us.model_copy(update={"p99": None})
    load = golden.summary.loads["0.5"].model_copy(update={"rounds_fallen_behind": 0})
    summary = golden.summary.model_copy(update={"empty_rpc_latency_us": nothing, "loads": {"0.5": load}})
    assert not [line for line in facts(summary) if "empty RPC" in line or "fell behind" in line]


def test_the_page_is_whole_and_has_the_record(golden: GoldenRun) -> None:
    record = golden.record.model_copy(update={"target": "<b>&"})
    path = write_report(golden.folder, record, golden.summary)
    assert path == golden.folder / "report.html"
    text = path.read_text()
    assert "<h1>Run 20260102-030405 on &lt;b&gt;&amp;</h1>" in text
    assert "geometric mean of the rounds' ratios" in text
    found = re.search(r"<pre>(.*)</pre>", text, re.DOTALL)
    assert found is not None
    shown = json.loads(unescape(found[1]))
    assert shown == json.loads(record.model_dump_json(exclude={"blocks"}))
    assert '\n  "target": "<b>&",\n' in unescape(found[1])
    assert Page(text).parts["h2"] == [
        "Load 0.5",
        "Completion of pull and push, from the scheduled start",
        "Latency of RPCs",
        "Latency of RPCs by class",
        "Where an RPC's time goes",
        "Where offload loses",
        "How to read this",
    ]
    assert "$" not in text.split("<svg")[0]
