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

from analysis.answer import answer
from analysis.disturbance import bounds
from analysis.facts import facts
from analysis.page.drawing import drawings
from analysis.page.tables import losses
from analysis.page.words import CAVEATS
from analysis.record import ProgramUse
from analysis.report import write_report
from analysis.summary import ProgramShare, Summary
from analysis.table import print_summary, render
from tests.harness.words import all_that_counts, what_counts
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
        "PS_proc CPU/step, µs": [
            "90",
            "[+0.0, +0.0]",
            "-2.2 [-2.2, -2.2]",
            "-19 [-22, -9.6]",
            "-33 [-33, -33]",
        ],
        # -95 [-100, -84] of 400.
        "PS CPU/step, µs": ["400", "[+0.0, +0.0]", "-2.5 [-2.5, -2.5]", "-24 [-25, -21]", "-30 [-30, -30]"],
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
        "RPCs/step": ["6.0", "[+0.0, +0.0]", "+0.0 [+0.0, +0.0]", "+100 [+100, +100]", "+100 [+100, +100]"],
        "worker CPU/step, µs": [
            "500",
            "[+0.0, +0.0]",
            "+2.0 [+2.0, +2.0]",
            "+22 [+20, +26]",
            "+24 [+24, +24]",
        ],
    }


def test_with_the_switch_in_the_kernel_cpu_is_told_with_and_without_it(golden: GoldenRun) -> None:
    run = in_the_kernel(golden)
    output = io.StringIO()
    print_summary(run.summary, output)
    rows = table(output.getvalue(), "Load 0.5: 1,234.5 steps/s, 10 rounds; differences to neither in %")
    assert "…" not in output.getvalue()
    assert [name for name in rows if "CPU" in name or "switch" in name] == [
        "PS_proc CPU/step, µs",
        "PS CPU/step, µs",
        "PS w/o switch",
        "worker CPU/step, µs",
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
    row = [
        "worker w/o switch", "400", "+0.0 % [+0.0, +0.0]", "+2.5 % [+2.5, +2.5]", "+11 % [+10, +13]",
        "+5.0 % [+5.0, +5.0]",
    ]  # fmt: skip
    assert row in page.tables[DIFFERENCES]
    # 1.8 ms for 1,500 frames.
    title = "Run 20260102-030405 on softswitch (datapath kernel, 1.2 µs of senders' CPU a frame)"
    assert page.parts["h1"] == [title]
    took = "24.3% of workers' (0.33), 12.9% of servers' (0.11)"
    assert numbers_and_arms(took) in map(numbers_and_arms, page.parts["li"])


@pytest.mark.parametrize(
    ("cores", "of", "told"),
    [
        (ProgramUse(workers=0, servers=0, apart=0.14), (0, 0), "14.0% of a core"),
        (ProgramUse(workers=0, servers=0.02, on_servers=0.3), (0, 0.05),
         "30.0% of a core; 0.0% of the workers' (0.00), 5.0% of the servers' (0.02)"),
        (ProgramUse(workers=0.08, servers=0, on_workers=0.2, apart=0.1), (0.1, 0),
         "10.0%; 20.0% of a core; 10.0% of the workers' (0.08), 0.0% of the servers' (0.00)"),
    ],
)  # fmt: skip
def test_where_the_switch_ran_is_told_with_what_it_took_there(
    golden: GoldenRun, cores: ProgramUse, of: tuple[float, float], told: str
) -> None:
    share = ProgramShare(workers=of[0], servers=of[1], cores=cores)
    lines = facts(golden.summary.model_copy(update={"program_share": share}))
    (found,) = [line for line in lines if line.startswith("The switch ran")]
    assert "senders' cores" not in found
    assert numbers_and_arms(found) == numbers_and_arms(told)
    for whose, s in (("that no agent has", cores.apart), ("that the servers have", cores.on_servers)):
        assert (whose in found) == (s > 0)


def test_a_switch_with_a_cpu_takes_none_of_its_senders(golden: GoldenRun) -> None:
    run = in_the_kernel(golden)
    record = run.record.model_copy(update={"placement": {"switch": 2, "servers": 0, "workers": 1}})
    page = Page(without_figures(GoldenRun(run.folder, record, run.summary), run.summary))
    assert "1.2 µs of its CPU a frame" in page.parts["h1"][0]


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


_NAMES = "neither|again|proxy|hot|both|sooner|later|WARNING"
_COUNTS = rf"[-+±]?[\d,]*\d(?:\.\d+)?%?|\b(?:(?:{_NAMES})\b|(?:work|serv)ers')"


def numbers_and_arms(fact: str) -> list[str]:
    """What a reader takes from a fact, however it is worded."""
    return re.findall(_COUNTS, fact)


_SLOW = "(the disk lost 9 rows)"
CLAIMED = (
    "Load 0.5, on 2 CPUs, against neither: "
    f"proxy: pulls [-1.9%, -1.9%], pushes no measurable difference [+0.0%, +0.0%] {_SLOW}; "
    f"hot: pulls [-19.3%, -15.6%], pushes [-34.8%, -32.1%] {_SLOW}; "
    f"both: pulls [-21.2%, -21.2%], pushes [-36.2%, -36.2%] {_SLOW}."
)
CLAIMED_WITH_ALL_ROWS = (
    "Load 0.5, on 2 CPUs, against neither: "
    "proxy: pulls 1.9% sooner [-1.9%, -1.9%], pushes no measurable difference [+0.0%, +0.0%]; "
    "hot: pulls 18.2% sooner [-19.3%, -15.6%], pushes 34.0% sooner [-34.8%, -32.1%]; "
    "both: pulls 21.2% sooner [-21.2%, -21.2%], pushes 36.2% sooner [-36.2%, -36.2%]."
)
RUN_FACTS = [
    CLAIMED,
    "goal ±3% (p99 ±10%); widest: load 0.5, hot, ±1.8%",
    "at load 0.5: 25 steps, not 100 (p99)",
    "run again: 3 (hot: steal 2, lateness 1; proxy: steal 1); 1 disturbed to the last",
    bounds(),
    # Of neither and again the mean.
    "neither 198, proxy 201, hot 202, both 203",
    # 200 and 196; 192 in hot; 160 and 190.
    "WARNING: 198 at first, 192 in the middle (-3%), 175 at the end (-12%)",
]
FACTS = [
    "25.0%, hot",
    "WARNING: 12%",
    "86,400 sent, 86,393 applied, 4 lost, 3 unknown; 2 keys differ; 5 overflows",
    "80,000 updates (12 in the servers' logs); 9 rows dropped",
    # Of hot 0.52 in nine rounds and 0.62 in one; of both 0.51. These two arms are what differs between arms
    # that train alike: the difference of their logarithms is 0.0370. Times Student's t, 3.182, over √3 for 3
    # degrees of freedom; for those that are like neither 4.303 over √2, for 2.
    "neither's 0.5000: again +0.0 % [-11, +12], proxy +0.0 % [-11, +12], hot +5.8 % [-1.1, +13], "
    "both +2.0 % [-4.7, +9.2]",
    "0.5060; by the labels' frequency alone 0.6900",
    "150 µs (p50), 199 µs (p99)",
    "at load 0.5 in 2 of 10 rounds",
]


def test_the_terminals_facts(golden: GoldenRun, terminal: str) -> None:
    """Those that are longer than a line go on in the next."""
    told = list(facts(golden.summary))
    assert list(map(numbers_and_arms, told)) == list(map(numbers_and_arms, (*RUN_FACTS, *FACTS)))
    assert all(fact in " ".join(terminal.split()) for fact in told)


class Page(HTMLParser):
    """Headings, list items, paragraphs and tables of a page, as text; tables by their captions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts: dict[str, list[str]] = {
            "h1": [],
            "h2": [],
            "h3": [],
            "li": [],
            "p": [],
            "dt": [],
            "dd": [],
        }
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


@pytest.fixture(scope="module")
def page(golden: GoldenRun) -> Page:
    return Page(write_report(golden.folder, golden.record, golden.summary).read_text())


def without_figures(golden: GoldenRun, summary: Summary) -> str:
    """The page's text; to draw takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.report.figures", lambda sources, progress: [])
        return write_report(golden.folder, golden.record, summary).read_text()


DIFFERENCES = "Load 0.5: 1,234.5 steps/s offered, 10 rounds; in % of neither"


def test_the_pages_differences(page: Page, terminal: str) -> None:
    """The same numbers as the terminal's, with the sign for per cent, and those of arm again."""
    head, *rows = page.tables[DIFFERENCES]
    assert head == ["", "neither", "again", "proxy", "hot", "both"]
    on_terminal = table(terminal, "Load 0.5")
    assert [title for title, *_ in rows] == list(on_terminal)
    for title, *cells in rows:
        bare = [cell.replace(" %", "") for cell in cells]
        assert bare[1].partition(" ")[2] == on_terminal[title][1]
        assert [bare[0], *bare[2:]] == [on_terminal[title][0], *on_terminal[title][2:]]
    assert rows[0] == [
        "pull mean, µs", "519", "+0.0 % [+0.0, +0.0]", "-1.9 % [-1.9, -1.9]", "-18 % [-19, -16]",
        "-21 % [-21, -21]",
    ]  # fmt: skip


SENTENCES = [
    "servers save -24 % [-25, -21] CPU",
    "servers pay +2.1 % [+1.6, +3.3] bytes",
    "workers pay +100 % [+100, +100] RPCs, +22 % [+20, +26] CPU",
    "measurable packets servers +1.6 % [+0.0, +5.3], log loss +5.8 % [-1.1, +13]",
    # Rows of the logs are missing.
    "compared 9 pulls -18 % [-19, -16], pushes -34 % [-35, -32]",
    "proxy compared 9 pulls -1.9 % [-1.9, -1.9]",
    "proxy unchanged pushes +0.0 % [+0.0, +0.0]",
]
WITH_ALL_ROWS = [
    *SENTENCES[:3],
    "pulls pushes sooner -18 % [-19, -16] -34 % [-35, -32]",
    SENTENCES[3],
    "proxy pulls sooner -1.9 % [-1.9, -1.9]",
    SENTENCES[-1],
]


def test_the_answer_of_a_run_that_lost_updates(golden: GoldenRun) -> None:
    found = answer(golden.summary)
    assert what_counts(found.title) == what_counts("2 hot neither 0.5 neither 95 %")
    assert not found.is_trusted
    assert what_counts(found.headline) == what_counts("trusted 4 updates lost 2 keys 5 additions overflowed")
    assert all_that_counts(found.texts()) == all_that_counts(SENTENCES)


def test_the_answer_comes_first_on_page_and_terminal_and_in_the_json(
    golden: GoldenRun, page: Page, terminal: str
) -> None:
    found = answer(golden.summary)
    assert page.parts["p"][:2] == [found.title, found.headline]
    assert page.parts["li"][: len(SENTENCES)] == found.texts()
    words = " ".join(terminal.replace("•", "").split())
    assert words.startswith(" ".join([f"{found.title}:", found.headline, *found.texts(), "Load 0.5:"]))
    results = json.loads((golden.folder / "summary.json").read_text())
    assert results["answers"] == [
        {"title": found.title, "headline": found.headline, "is_trusted": False, "sentences": found.texts()}
    ]


def sound(summary: Summary) -> Summary:
    """With nothing lost."""
    updates = summary.updates.model_copy(update={"lost": 0, "mismatched_keys": 0})
    return summary.model_copy(update={"updates": updates, "overflows": 0, "dropped_rows": 0})


def test_with_nothing_lost_there_is_a_recommendation(golden: GoldenRun) -> None:
    found = answer(sound(golden.summary))
    assert found.is_trusted
    assert what_counts(found.headline) == what_counts("do it, servers save CPU, operations sooner")
    assert all_that_counts(found.texts()) == all_that_counts(WITH_ALL_ROWS)
    assert numbers_and_arms(CLAIMED_WITH_ALL_ROWS) in map(numbers_and_arms, facts(sound(golden.summary)))


def test_the_pages_facts_and_where_offload_loses(page: Page) -> None:
    assert page.parts["h1"] == ["Run 20260102-030405 on softswitch"]
    assert list(map(numbers_and_arms, page.parts["li"][len(SENTENCES) :])) == list(
        map(
            numbers_and_arms,
            [
                "0.5, hot: bytes +2.1 % [+1.6, +3.3], RPCs +100 % [+100, +100], CPU +22 % [+20, +26]",
                "0.5, both: bytes +1.6 % [+1.6, +1.6], RPCs +100 % [+100, +100], CPU +24 % [+24, +24]",
                *RUN_FACTS,
                *FACTS,
                *CAVEATS,
            ],
        )
    )


def test_the_page_tells_what_was_run(page: Page) -> None:
    # The glossary's words come behind it.
    ran = dict(reversed(list(zip(page.parts["dt"], page.parts["dd"], strict=True))))
    assert ran["workload"] == "R1: 144 parameters, 72 of them a step"
    assert ran["network"] == "3 workers, 2 parameter servers, one switch: softswitch"
    assert what_counts(ran["hot set"]) == what_counts("18 most updated parameters, 12.5 % of all")
    assert ran["load"] == "0.5: 1,234.5 steps/s of all workers"
    # 300 steps an arm: of 6 RPCs in three arms, of 12 in two.
    assert ran["measured"] == "1,500 steps, some 12,600 RPCs"
    assert ran["machine"] == "2 CPUs: 6.1"
    assert ran["emulator alone"] == "an empty RPC takes 150 µs (p50), 199 µs (p99)"


def test_the_networks_drawing_has_the_runs_numbers(page: Page, golden: GoldenRun) -> None:
    without, with_hot = drawings(golden.summary, golden.record)
    assert re.findall(r">([^<]+)</text>", without.svg) == [
        "3 workers", "pull 519 µs, push 719 µs",
        "switch", "forwards all of them; 8.0 µs an RPC",
        "2 parameter servers", "PS_proc 90 µs of CPU",
        "6.0 RPCs", "6.0 packets",
    ]  # fmt: skip
    assert re.findall(r">([^<]+)</text>", with_hot.svg)[3:] == [
        "answers 6.0 of them; 7.0 µs an RPC",
        "2 parameter servers", "PS_proc 74 µs of CPU",
        "12.0 RPCs", "6.1 packets",
    ]  # fmt: skip
    assert "12.0 RPCs a step, 6.1 packets to the servers" in with_hot.svg


def test_better_and_worse_are_told_apart(golden: GoldenRun) -> None:
    """By colour, and by the sign: green is less, and what is not claimed has none."""
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
    """Cells of the terminal's tables that are green, and red."""
    output = io.StringIO()
    Console(file=output, force_terminal=True, color_system="standard", width=100).print(render(summary))
    green, red = (re.findall(rf"\x1b\[{code}m([-+][^\x1b]*)\x1b\[0m", output.getvalue()) for code in (32, 31))
    return green, red


def test_tables_have_no_colour_that_the_answer_does_not_bear(golden: GoldenRun) -> None:
    """Rows of the logs are missing, so that no time is claimed."""
    green, _ = colours(golden.summary)
    assert "-18 [-19, -16]" not in green and "-24 [-25, -21]" in green
    text = without_figures(golden, golden.summary)
    assert "<span>-18 % [-19, -16]</span>" in text
    assert '<span class="better">-24 % [-25, -21]</span>' in text


def test_what_again_differs_by_is_neither_better_nor_worse(golden: GoldenRun) -> None:
    load = golden.summary.loads["0.5"]
    again = {**load.differences, "again": load.differences["hot"]}
    summary = golden.summary.model_copy(
        update={"loads": {"0.5": load.model_copy(update={"differences": again})}}
    )
    output = io.StringIO()
    Console(file=output, force_terminal=True, color_system="standard", width=100).print(render(summary))
    assert "  [-19, -16]" in re.sub(r"\x1b\[3[12]m.*?\x1b\[0m", "", output.getvalue())
    assert 'data-column="again"><span>-18 % [-19, -16]</span>' in without_figures(golden, summary)


def with_pull_mean(summary: Summary, **changes: float | None) -> Summary:
    """The summary with another mean pull of arm hot."""
    load = summary.loads["0.5"]
    differences = {arm: dict(metrics) for arm, metrics in load.differences.items()}
    differences["hot"]["pull_mean"] = differences["hot"]["pull_mean"].model_copy(update=changes)
    return summary.model_copy(update={"loads": {"0.5": load.model_copy(update={"differences": differences})}})


@pytest.mark.parametrize(
    ("ratio", "terminal", "page"),
    [
        # Of few rounds there is no interval, of nothing no percentage.
        ((-0.1, None, None), "-10", "-10 %"),
        ((None, None, None), "–", "–"),
        ((0.0999, 0.0, 0.12), "+10 [+0.0, +12]", "+10 % [+0.0, +12]"),
        ((0.0994, 0.0, 0.12), "+9.9 [+0.0, +12]", "+9.9 % [+0.0, +12]"),
        ((0.1, -0.002, 19.26), "+10 [-0.2, ×20]", "+10 % [-0.2, ×20]"),
        ((19.26, 0.1, 21.0), "×20 [+10, ×22]", "×20 [+10, ×22]"),
    ],
)
def test_a_difference_as_it_is_shown(
    golden: GoldenRun, ratio: tuple[float | None, ...], terminal: str, page: str
) -> None:
    names = ("ratio", "ratio_low", "ratio_high")
    summary = with_pull_mean(golden.summary, **dict(zip(names, ratio, strict=True)))
    output = io.StringIO()
    print_summary(summary, output)
    assert table(output.getvalue(), "Load 0.5")["pull mean, µs"][3] == terminal
    assert Page(without_figures(golden, summary)).tables[DIFFERENCES][1][4] == page


def has_no_intervals(told: str) -> bool:
    return re.search(r"No 95 % intervals\b.*\b6 complete rounds\b", told) is not None


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
        assert has_no_intervals(" ".join(output.getvalue().split())) == told
        assert any(map(has_no_intervals, Page(without_figures(golden, summary)).parts["p"])) == told


def test_offload_loses_where_the_whole_interval_is_above_the_baseline(golden: GoldenRun) -> None:
    def of_pull_mean(**changes: float | None) -> list[str]:
        summary = with_pull_mean(sound(golden.summary), **changes)
        lines = ["".join(span.text for span in line) for line in losses(summary, "0.5")]
        return re.findall(r"hot: pull mean (.*?),", " ".join(lines))

    assert of_pull_mean(ratio=0.07, ratio_low=0.005, ratio_high=0.09) == ["+7.0 % [+0.5"]
    for low in (0.0, -0.01, None):
        assert of_pull_mean(ratio=0.07, ratio_low=low, ratio_high=0.09) == []


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
    told = filter(has_no_intervals, Page(without_figures(golden, summary)).parts["p"])
    assert any("cannot tell" in each for each in told)


def test_a_load_without_a_complete_round(golden: GoldenRun) -> None:
    load = golden.summary.loads["0.5"].model_copy(update={"differences": {}})
    summary = golden.summary.model_copy(update={"loads": {"0.5": load}})
    text = without_figures(golden, summary)
    page = Page(text)
    assert [told for told in page.parts["p"] if told.startswith("No round")]
    assert [told for told in page.parts["p"] if told.startswith("Nowhere")]
    assert page.tables[DIFFERENCES] == [["", "neither"]]
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
        ({"hot_update_share": 0}, "served", "0.0%, hot"),
        ({"hot_part": None}, "switch has room", None),
        ({"hot_part": 0.1}, "switch has room", None),
        ({"hot_part": 0.77}, "switch has room", "WARNING: 77%"),
        ({}, "somebody changed", None),
        (
            {"rate": 150.0},
            "Capacity",
            "neither 198, proxy 201, hot 202, both 203; fractions of 150",
        ),
        (
            {"rate": 150.0},
            "drifted",
            "WARNING: 198 at first, 192 in the middle (-3%), 175 at the end (-12%)",
        ),
        (
            {"changed_arms": ["neither", "hot"]},
            "somebody changed",
            "WARNING: proxy, neither, hot",
        ),
        ({"learning": {}}, "over all rounds", None),
        ({"last_loss": None}, "the last round", None),
        ({"chance_loss": None}, "the last round", None),
        ({"chance_loss": 0.0}, "the last round", None),
        (
            {"last_loss": 0.69},
            "the last round",
            "WARNING: 0.6900; by the labels' frequency alone 0.6900",
        ),
    ],
)
def test_facts_that_depend(golden: GoldenRun, changes: dict[str, Any], fact: str, told: str | None) -> None:
    lines = [line for line in facts(golden.summary.model_copy(update=changes)) if fact in line]
    assert list(map(numbers_and_arms, lines)) == ([] if told is None else [numbers_and_arms(told)])


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
    assert "geometric mean of the rounds' ratios" in unescape(text)
    found = re.search(r'<pre tabindex="0">(.*)</pre>', text, re.DOTALL)
    assert found is not None
    shown = json.loads(unescape(found[1]))
    assert shown == json.loads(record.model_dump_json(exclude={"blocks", "repeated_blocks"}))
    assert '\n  "target": "<b>&",\n' in unescape(found[1])
    page = Page(text)
    assert page.parts["h2"] == [
        "What was run",
        "Beside the paper",
        "Differences to neither",
        "Figures",
        "What the numbers rest on",
        "How to read this",
        "Glossary",
    ]
    assert len(page.parts["h3"]) == len(IN_THE_HEADINGS)
    for heading, words in zip(page.parts["h3"], IN_THE_HEADINGS, strict=True):
        assert all(word in heading for word in words)


IN_THE_HEADINGS = (
    ("loses",),
    ("pull and push", "due"),
    ("Latency", "RPCs"),
    ("Latency", "answered"),
    ("RPC's time",),
    ("Size", "responses"),
    ("Interval", "RPCs", "one worker", "one server"),
    ("Workers", "one server", "1,000 µs"),
    ("updates", "most updated"),
    ("PS_proc", "N_tx"),
)
"""Words of the figures' titles, in the page's order."""


def test_a_report_takes_nothing_from_a_run_that_goes_on(golden: GoldenRun) -> None:
    """With CLI=1 it is written while the agents still have their parts to write."""
    parts = golden.folder / "parts"
    parts.mkdir(exist_ok=True)
    try:
        without_figures(golden, golden.summary)
        assert parts.is_dir()
    finally:
        parts.rmdir()


def test_the_papers_findings_stand_beside_the_runs(page: Page) -> None:
    """Without, and with hot, proxy and both; what goes away is positive, and what comes on top is not."""
    [(head, *rows)] = [rows for title, rows in page.tables.items() if "[DDL]" in title and "R1" in title]
    assert head == ["", "paper", "here, without", "here, with hot", "here, with proxy", "here, with both"]

    def of(*words: str) -> list[str]:
        """The cells of the one row whose title has these."""
        [found] = [cells for title, *cells in rows if all(word in title for word in words)]
        return found

    assert of("pull", "Fig. 5")[:2] == ["PS_proc, N_tx", "N_tx 69 %, PS_proc 18 %"]
    assert of("pull, push", "Fig. 6")[1] == "184 B, 56 B"
    # 40 µs of either.
    assert of("arithmetic", "PS_proc")[1] == "0.0 %"
    assert of("20,000", "R1")[1:] == ["100.0 %", "–", "–", "–"]
    assert of("reads and writes")[1:] == ["–", "25.0 %", "–", "–"]
    # 2.1 ms of 2.7 in nine rounds and 3.3 in one; 2.64; 1.8.
    assert of("PS_proc", "CPU time")[1:] == ["–", "18.6 %", "2.2 %", "33.3 %"]
    # Seven packets of six in one round of ten.
    assert of("packets to the servers")[1:] == ["–", "−1.6 %", "0.0 %", "0.0 %"]
