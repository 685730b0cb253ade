"""The golden run as people read it: the terminal's tables and the page, each number with its unit."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest

from analysis.report import write_report
from analysis.table import print_summary
from tests.unit.golden.run import GoldenRun


@pytest.fixture(scope="module")
def terminal(golden: GoldenRun) -> str:
    output = io.StringIO()
    print_summary(golden.summary, output)
    return output.getvalue()


def table(text: str, title: str) -> dict[str, list[str]]:
    """The rows of the table below a title, by their first cell."""
    lines = text[text.index(title) :].splitlines()[1:]
    cells = [re.split(r" {2,}", line.strip()) for line in lines]
    head = next(index for index, line in enumerate(cells) if line == ["neither", "proxy", "hot", "both"])
    found = {}
    for row in cells[head + 2 :]:
        if len(row) < 5:
            break
        found[row[0]] = row[1:]
    return found


def test_the_terminals_differences(terminal: str) -> None:
    """Percentages of the baseline; two digits below 10, whole numbers above."""
    assert table(terminal, "Load 0.5: 1,234.5 steps/s, 10 rounds; differences to neither in %") == {
        # -10 of 519.2; -94 [-100, -76] of it; -110.
        "pull mean, µs": ["519", "-1.9 [-1.9, -1.9]", "-18 [-19, -15]", "-21 [-21, -21]"],
        "pull p50, µs": ["510", "-2.0 [-2.0, -2.0]", "-20 [-20, -20]", "-22 [-22, -22]"],
        "pull p95, µs": ["560", "-1.8 [-1.8, -1.8]", "-16 [-18, -7.1]", "-20 [-20, -20]"],
        "pull p99, µs": ["810", "-1.2 [-1.2, -1.2]", "-12 [-12, -4.9]", "-14 [-14, -14]"],
        "push mean, µs": ["719", "+0.0 [+0.0, +0.0]", "-34 [-35, -31]", "-36 [-36, -36]"],
        "push p50, µs": ["710", "+0.0 [+0.0, +0.0]", "-35 [-35, -35]", "-37 [-37, -37]"],
        "push p95, µs": ["760", "+0.0 [+0.0, +0.0]", "-32 [-33, -25]", "-34 [-34, -34]"],
        "push p99, µs": ["1,010", "+0.0 [+0.0, +0.0]", "-25 [-25, -19]", "-26 [-26, -26]"],
        "step mean, µs": ["5,719", "+0.0 [+0.0, +0.0]", "-4.3 [-4.4, -4.0]", "-4.5 [-4.5, -4.5]"],
        # -44 [-50, -26] of 219.2.
        "RPC mean, µs": ["219", "-3.6 [-3.6, -3.6]", "-20 [-23, -12]", "-23 [-23, -23]"],
        "PS_proc CPU, µs/step": ["90", "-2.2 [-2.2, -2.2]", "-18 [-22, -4.4]", "-33 [-33, -33]"],
        # -95 [-100, -80] of 400.
        "PS CPU, µs/step": ["400", "-2.5 [-2.5, -2.5]", "-24 [-25, -20]", "-30 [-30, -30]"],
        "packets to PS/step": ["6.0", "+0.0 [+0.0, +0.0]", "+1.7 [+0.0, +6.7]", "+0.0 [+0.0, +0.0]"],
        "bytes to PS/step": ["1,776", "+0.0 [+0.0, +0.0]", "+2.1 [+1.6, +3.6]", "+1.6 [+1.6, +1.6]"],
        "RPCs a step": ["6.0", "+0.0 [+0.0, +0.0]", "+100 [+100, +100]", "+100 [+100, +100]"],
        "worker CPU, µs/step": ["500", "+2.0 [+2.0, +2.0]", "+22 [+20, +28]", "+24 [+24, +24]"],
        "mean log loss": ["0.5000", "+0.0 [+0.0, +0.0]", "+6.0 [+4.0, +12]", "+2.0 [+2.0, +2.0]"],
    }


def test_the_terminals_breakdown(terminal: str) -> None:
    """Numbers of RPCs a step by class, times their mean latency, and the five metrics, in µs."""
    assert table(terminal, "All loads: RPCs and their latency, means in µs") == {
        "steps": ["300", "300", "300", "300"],
        "RPCs a step": ["6.0", "6.0", "12.0", "12.0"],
        "all-hit × latency": ["0.0 × –", "0.0 × –", "6.0 × 95", "6.0 × 89"],
        "mixed × latency": ["0.0 × –", "0.0 × –", "2.0 × 315", "2.0 × 309"],
        "cold × latency": ["6.0 × 219", "6.0 × 211", "4.0 × 225", "4.0 × 219"],
        "w_proc": ["3.0", "3.0", "3.0", "3.0"],
        "w_queue": ["6.0", "6.0", "5.0", "5.0"],
        "ps_proc": ["40.0", "40.0", "25.0", "25.0"],
        "ps_queue": ["20.0", "12.0", "11.0", "11.0"],
        "n_tx": ["150.2", "150.2", "131.2", "125.2"],
        "switch": ["8.0", "8.0", "7.0", "7.0"],
    }


FACTS = [
    "The switch served 25.0% of the pushed lanes in arm hot.",
    "Updates: 86,400 lanes sent, 86,393 applied, 4 lost, 3 unknown; 2 keys differ; 5 overflows.",
    "Mean log loss of the last round: 0.5075; by the labels' frequency alone: 0.6900.",
    "An empty RPC, through switch and PS: p50 150 µs, p99 199 µs.",
    "At load 0.5 the load generator fell behind in 2 of 10 rounds.",
]


def test_the_terminals_facts(terminal: str) -> None:
    assert all(fact in terminal.splitlines() for fact in FACTS)


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


def test_the_pages_differences(page: Page) -> None:
    """In the metric's own unit, where the terminal has percentages."""
    assert page.parts["p"][0] == "1,234.5 steps/s offered, 10 rounds; differences to neither."
    assert page.rows == [
        ["", "neither", "proxy", "hot", "both"],
        ["pull mean, µs", "519", "-10 [-10, -10]", "-94 [-100, -76]", "-110 [-110, -110]"],
        ["pull p50, µs", "510", "-10 [-10, -10]", "-100 [-100, -100]", "-110 [-110, -110]"],
        ["pull p95, µs", "560", "-10 [-10, -10]", "-90 [-100, -40]", "-110 [-110, -110]"],
        ["pull p99, µs", "810", "-10 [-10, -10]", "-100 [-100, -40]", "-110 [-110, -110]"],
        ["push mean, µs", "719", "+0 [+0, +0]", "-244 [-250, -226]", "-260 [-260, -260]"],
        ["push p50, µs", "710", "+0 [+0, +0]", "-250 [-250, -250]", "-260 [-260, -260]"],
        ["push p95, µs", "760", "+0 [+0, +0]", "-240 [-250, -190]", "-260 [-260, -260]"],
        ["push p99, µs", "1,010", "+0 [+0, +0]", "-250 [-250, -190]", "-260 [-260, -260]"],
        ["step mean, µs", "5,719", "+0 [+0, +0]", "-244 [-250, -226]", "-260 [-260, -260]"],
        ["RPC mean, µs", "219", "-8 [-8, -8]", "-44 [-50, -26]", "-50 [-50, -50]"],
        ["PS_proc CPU, µs/step", "90", "-2 [-2, -2]", "-16 [-20, -4]", "-30 [-30, -30]"],
        ["PS CPU, µs/step", "400", "-10 [-10, -10]", "-95 [-100, -80]", "-120 [-120, -120]"],
        ["packets to PS/step", "6.0", "+0.0 [+0.0, +0.0]", "+0.1 [+0.0, +0.4]", "+0.0 [+0.0, +0.0]"],
        ["bytes to PS/step", "1,776", "+0 [+0, +0]", "+37 [+28, +65]", "+28 [+28, +28]"],
        ["RPCs a step", "6.0", "+0.0 [+0.0, +0.0]", "+6.0 [+6.0, +6.0]", "+6.0 [+6.0, +6.0]"],
        ["worker CPU, µs/step", "500", "+10 [+10, +10]", "+110 [+100, +140]", "+120 [+120, +120]"],
        [
            "mean log loss",
            "0.5000",
            "+0.0000 [+0.0000, +0.0000]",
            "+0.0300 [+0.0200, +0.0600]",
            "+0.0100 [+0.0100, +0.0100]",
        ],
    ]


def test_the_pages_facts_and_where_offload_loses(page: Page) -> None:
    assert page.parts["h1"] == ["Run 20260102-030405 on softswitch"]
    assert page.parts["li"] == [
        *FACTS,
        "Load 0.5, hot: bytes to PS/step is 37 above neither's 1,776.",
        "Load 0.5, hot: RPCs a step is 6.0 above neither's 6.0.",
        "Load 0.5, hot: worker CPU, µs/step is 110 above neither's 500.",
        "Load 0.5, hot: mean log loss is 0.0300 above neither's 0.5000.",
        "Load 0.5, both: bytes to PS/step is 28 above neither's 1,776.",
        "Load 0.5, both: RPCs a step is 6.0 above neither's 6.0.",
        "Load 0.5, both: worker CPU, µs/step is 120 above neither's 500.",
        "Load 0.5, both: mean log loss is 0.0100 above neither's 0.5000.",
    ]
