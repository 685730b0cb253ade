"""Every reason not to claim a difference has its own words, at its row, on the terminal and on the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.disturbance import DISTURBANCES
from analysis.disturbed_blocks import DisturbedBlocks
from analysis.forest import Effect, ForestRow, forest
from analysis.metrics import LOSS, METRICS
from analysis.page.build import ResultColumns, forest_plot
from analysis.record import RunRecord
from analysis.report import answers, result
from analysis.sentences.differences import DISTURBANCE_WORDS, row_reason
from analysis.statistics import compare_paired
from analysis.summary import Summary
from analysis.terminal import print_result
from analysis.verdict import Claim, Misfit, Verdict
from switch_harness.wording import says_in_one_line
from tests.harness.summaries import of_ratio, terminal
from tests.unit.analysis.test_answer import CPU, LESS, MORE, NOT_KNOWN, OPEN, PULL, STOLEN, summary
from tests.unit.analysis.test_record import MINIMAL_RECORD

METRIC = METRICS[PULL]
MISFIT = Misfit("pulls", "offload", simulated=2_000, measured=7_000, unit="µs")
BUSY = DisturbedBlocks(blocks=12, disturbed=12, reasons={"others' CPU": 12, "steal": 3})
# A change of each reason, in all columns of a first screen.
CLAIMS: Mapping[Verdict, Claim] = {
    Verdict.LESS: Claim(METRIC, LESS),
    Verdict.MORE: Claim(METRIC, MORE),
    Verdict.SAME: Claim(METRIC, of_ratio(0.0, 0.0, 0.0)),
    Verdict.CONTAINS_ZERO: Claim(METRIC, OPEN),
    Verdict.AS_NULL: Claim(METRIC, MORE, null=MORE),
    Verdict.FEW_ROUNDS: Claim(METRIC, NOT_KNOWN),
    Verdict.UNREPEATED: Claim(LOSS, NOT_KNOWN),
    Verdict.DISTURBED: Claim(METRIC, MORE, disturbed=BUSY),
    Verdict.MISFIT: Claim(METRIC, MORE, misfit=MISFIT),
    Verdict.DROPPED_ROWS: Claim(METRIC, MORE, dropped_rows=9),
    Verdict.UNCHECKED: Claim(METRIC, MORE, is_unchecked=True),
}
EFFECTS: Mapping[Verdict, Effect] = {
    **{verdict: Effect(claim.change, verdict, claim.tone, claim) for verdict, claim in CLAIMS.items()},
    Verdict.FEW_CAPACITIES: Effect(NOT_KNOWN, Verdict.FEW_CAPACITIES),
    Verdict.NOT_MEASURED: Effect(None, Verdict.NOT_MEASURED),
}
UNCLAIMED = {verdict: effect for verdict, effect in EFFECTS.items() if not verdict.sign}


def test_every_verdict_has_a_tested_claim() -> None:
    assert set(EFFECTS) == set(Verdict)
    assert {verdict: claim.verdict for verdict, claim in CLAIMS.items()} == {each: each for each in CLAIMS}


@pytest.mark.parametrize("why", [{"disturbed": BUSY}, {"misfit": MISFIT}])
def test_nothing_is_called_unchanged_by_values_that_are_withheld(why: dict[str, Any]) -> None:
    assert Claim(METRIC, of_ratio(0.0, 0.0, 0.0), **why).verdict is not Verdict.SAME


def test_every_reason_has_its_own_words() -> None:
    words = [row_reason(effect) for effect in UNCLAIMED.values()]
    assert len(set(words)) == len(words) and all(words)
    assert says_in_one_line(row_reason(EFFECTS[Verdict.DISTURBED]), "CPU", 12, 3)
    assert says_in_one_line(row_reason(EFFECTS[Verdict.MISFIT]), "2,000", "7,000", "pulls", "offload")


def test_every_disturbance_has_its_own_words() -> None:
    assert set(DISTURBANCE_WORDS) == set(DISTURBANCES)
    assert len(set(DISTURBANCE_WORDS.values())) == len(DISTURBANCES)


@pytest.mark.parametrize("verdict", UNCLAIMED)
def test_a_row_that_is_not_claimed_has_its_reason_on_the_page(verdict: Verdict) -> None:
    effect, claimed = EFFECTS[verdict], EFFECTS[Verdict.LESS]
    for dedicated, measured in ((effect, claimed), (claimed, effect)):
        row = ForestRow("time of a pull", "less", dedicated, measured)
        html = forest_plot([row], ResultColumns("dedicated switch", "this machine"))
        assert re.findall(r'class="reason">~ ([^<]+)<', html) == [row_reason(effect)]


def first_screen(of: Summary) -> str:
    record = RunRecord.model_validate(MINIMAL_RECORD | {"config": {"workers": 4, "servers": 2}})
    output = io.StringIO()
    print_result(record, of, Path("report.html"), output)
    return output.getvalue()


FROM_ZERO = compare_paired(np.full(6, 3.0), np.zeros(6))
# Runs whose pulls are not claimed, by the reason for which they are not.
RUNS: Mapping[Verdict, Callable[[], Summary]] = {
    Verdict.SAME: lambda: summary({PULL: of_ratio(0.0, 0.0, 0.0), CPU: LESS}),
    Verdict.CONTAINS_ZERO: lambda: summary({PULL: OPEN, CPU: LESS}),
    Verdict.AS_NULL: lambda: summary({PULL: of_ratio(0.009, 0.001, 0.02), CPU: LESS}),
    Verdict.FEW_ROUNDS: lambda: summary({PULL: NOT_KNOWN, CPU: LESS}),
    Verdict.DISTURBED: lambda: summary(
        {PULL: of_ratio(-0.94, -1, -0.6), CPU: LESS}, invalidated_by={"offload": {"time": BUSY}}, busy=BUSY
    ),
    Verdict.DROPPED_ROWS: lambda: summary({PULL: MORE, CPU: LESS}, dropped_rows=9),
}


@pytest.mark.parametrize("verdict", RUNS)
def test_the_row_of_a_metric_names_its_reason_and_no_other_reason(verdict: Verdict) -> None:
    of = RUNS[verdict]()
    [row] = [row for row in forest(of, None) if row.title == "time of a pull"]
    assert row.measured.verdict is verdict
    words = row_reason(row.measured)
    lines = [line for line in first_screen(of).splitlines() if line.startswith("~ ")]
    assert len(lines) == 1 and f"~ time of a pull: {words}".startswith(lines[0].rstrip())
    # The sentences of the report, too, have no other.
    said = " ".join(text for answer_text in answers(of) for text in answer_text.texts())
    others = {row_reason(effect) for other, effect in UNCLAIMED.items() if other is not verdict} - {
        "unchanged"
    }
    assert words.lower() in said.lower() and not [other for other in others if other in said]


@pytest.mark.parametrize(
    ("disturbed", "begin"),
    [
        (BUSY, "The machine was busy: other programs used the CPU in 12 of 12 blocks, "),
        (STOLEN, "The machine was busy: the hypervisor used the CPU in 5 of 20 blocks."),
        (
            DisturbedBlocks(blocks=4, disturbed=1, reasons={"restart": 1}),
            "Blocks were disturbed: a server or the switch restarted in 1 of 4 blocks.",
        ),
    ],
)
def test_the_disturbance_of_a_run_is_reported_first(disturbed: DisturbedBlocks, begin: str) -> None:
    of = summary({PULL: MORE, CPU: LESS}, busy=disturbed, invalidated_by={"offload": {"time": disturbed}})
    record = RunRecord.model_validate(MINIMAL_RECORD | {"config": {"workers": 4, "servers": 2}})
    assert result(record, of).busy.startswith(begin)
    # In both, directly below the title or above everything.
    assert " ".join(first_screen(of).splitlines()[1:3]).startswith(begin[:70])
    assert terminal(of).startswith(begin[:70])
    assert not result(record, summary({PULL: MORE})).busy


def test_the_verdict_does_not_call_a_disturbed_difference_insignificant() -> None:
    verdict = first_screen(RUNS[Verdict.DISTURBED]()).split("all numbers: ")[1].replace("\n", " ")
    assert "no significant difference" not in verdict
    assert "other programs used the CPU in 12 of 12 blocks" in " ".join(verdict.split())
