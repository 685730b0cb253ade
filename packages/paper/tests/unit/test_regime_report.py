"""The page of the paper's regime: a row for each figure, verdicts that follow from bounds, and two models."""

from __future__ import annotations

from functools import cache

import pytest

from foundation.checkout import ROOT
from foundation.designs.hotset import BASELINE
from hotline_paper.regime.__main__ import MIDDLE, RegimeReport, regimes_of
from hotline_paper.regime.fit import fit_to_figures
from hotline_paper.regime.held_out import CLUSTERS
from hotline_paper.regime.model import observe
from hotline_paper.regime.readings import LARGEST_WORKERS, SERVERS, SERVERS_IN_FIG_1
from hotline_paper.regime.verdicts import FIGURES, FigureRow
from tools.evidence.result import published_table
from tools.evidence.stage import OUTPUT

RECORDED = ROOT / "tests" / "unit" / "tools" / "evidence" / "paper-regime" / "regime" / OUTPUT
FIGURES_OF_THE_PAPER = {"1", "4", "5", "6", "7a", "7b", "8", "9", "10", "§3.2", "§4", "Table 1", "Table 2"}
HELD_OUT = {"8", "9"}
WITH_NUMBERS = [row for row in FIGURES if isinstance(row, FigureRow)]
VERDICT = "verdict"
STEPS_ERROR, BUSY_ERROR = 0.16, 0.15
"""Largest differences between the fit's model and the simulator: relative, and in shares of the time."""


@cache
def recorded() -> RegimeReport:
    return RegimeReport.model_validate_json(RECORDED.read_bytes())


def test_each_figure_and_table_of_the_paper_has_a_row() -> None:
    assert {row.figure for row in FIGURES} == FIGURES_OF_THE_PAPER


@pytest.mark.parametrize("row", WITH_NUMBERS, ids=lambda row: f"{row.figure} {row.quantity}")
def test_a_published_verdict_follows_from_the_recorded_value(row: FigureRow) -> None:
    middle = recorded().points[MIDDLE]
    published = published_table("paper-figures").cell(f"{row.figure}, {row.quantity}", VERDICT)
    assert published == row.verdict(middle)
    assert (row.figure in HELD_OUT) == ("held out" in row.use)


@pytest.mark.parametrize("row", WITH_NUMBERS, ids=lambda row: f"{row.figure} {row.quantity}")
def test_another_value_has_another_verdict(row: FigureRow) -> None:
    """Verdicts that no value could change would say nothing."""
    value = row.value(recorded().points[MIDDLE])
    verdicts = {
        row._replace(bounds=bounds).verdict(recorded().points[MIDDLE])
        for bounds in ((value - 1, value + 1), (value + 1, value + 2))
    }
    assert len(verdicts) == 2 and row.otherwise in verdicts


def test_no_simulation_lost_an_update() -> None:
    results = [each for points in recorded().points.values() for each in points.values()]
    assert results and not any(each.lost or each.mismatched_keys for each in results)


@pytest.mark.parametrize("cluster", ["S1", "S2", "S3", "S4", "S5", "S6", f"{LARGEST_WORKERS}"])
def test_the_model_of_the_fit_agrees_with_the_simulator(cluster: str) -> None:
    workers, servers = CLUSTERS.get(cluster, (LARGEST_WORKERS, SERVERS))
    fits = {name: fit_to_figures(name) for name in SERVERS_IN_FIG_1}
    expected = observe(regimes_of(fits)[MIDDLE], workers, servers)
    simulated = recorded().points[MIDDLE][cluster].arms[BASELINE.name]
    assert float(expected.steps_per_s) == pytest.approx(simulated.steps_per_s, rel=STEPS_ERROR)
    assert float(expected.servers_busy) == pytest.approx(simulated.servers_busy, abs=BUSY_ERROR)
