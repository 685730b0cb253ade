"""The golden run's figures: what is drawn of it, by arm."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.figures.all import figures
from analysis.figures.figure_data import source_of_run
from analysis.figures.model import COLOURS, Figure, Series
from tests.unit.golden.run import GoldenRun

ARMS = ["baseline", "proxy", "offload", "offload-proxy"]
MEASURED = [0.48, 0.92, 0.96, 1]
"""Share of steps that take at most 0, 10, 60 and 310 µs longer."""


@pytest.fixture(scope="module")
def drawn(golden: GoldenRun) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures([source_of_run(golden.folder)])}


def panels(figure: Figure) -> dict[str, list[str]]:
    return {panel.title: [series.name for series in panel.series] for panel in figure.panels}


def series(figure: Figure, panel: str, name: str) -> Series:
    [found] = [
        each for one in figure.panels if one.title == panel for each in one.series if each.name == name
    ]
    return found


def at(found: Series, *x: float) -> list[float]:
    """Return the values of a CDF at the edges that end these values."""
    edges = np.asarray(found.x, dtype=np.float64)
    places = [np.searchsorted(edges, 10 ** (np.ceil(100 * np.log10(us)) / 100) * (1 + 1e-9)) - 1 for us in x]
    return [float(found.y[place]) for place in places]


def test_the_golden_run_has_the_expected_figures(drawn: dict[str, Figure]) -> None:
    assert list(drawn) == [
        "completion", "fig-04", "fig-04-class", "fig-05", "fig-06", "fig-07a", "fig-07b", "fig-10", "sec-3-2",
    ]  # fmt: skip


def test_completion_by_load_with_the_null_arm(drawn: dict[str, Figure]) -> None:
    arms = ["baseline", "repeat", "proxy", "offload", "offload-proxy"]
    assert panels(drawn["completion"]) == {"pull, load 0.5": arms, "push, load 0.5": arms}
    of_baseline = series(drawn["completion"], "pull, load 0.5", "baseline")
    assert at(of_baseline, 500, 510, 560, 810) == pytest.approx(MEASURED)
    of_offload = series(drawn["completion"], "push, load 0.5", "offload")
    # 450 µs, and 510 in one round of ten.
    assert at(of_offload, 450, 460) == pytest.approx([0.9 * 0.48, 0.9 * 0.92])


def test_fig_4_is_of_measured_rpcs_by_operation_and_arm(drawn: dict[str, Figure]) -> None:
    assert panels(drawn["fig-04"]) == {"pull": ARMS, "push": ARMS}
    assert at(series(drawn["fig-04"], "pull", "baseline"), 200, 210, 260, 510) == pytest.approx(MEASURED)
    # Half of its RPCs are answered by the switch in 70 µs, in one round of ten in 130.
    assert at(series(drawn["fig-04"], "pull", "offload"), 70) == pytest.approx([0.5 * 0.9 * 0.48])


def test_fig_4_by_class_has_the_response_sizes_of_each_class_and_arm(drawn: dict[str, Figure]) -> None:
    assert panels(drawn["fig-04-class"]) == {
        "all-hit": ["offload", "offload-proxy"],
        "mixed": ["offload", "offload-proxy"],
        "cold": ARMS,
    }
    assert at(series(drawn["fig-04-class"], "all-hit", "offload-proxy"), 70, 80) == pytest.approx(
        [0.48, 0.92]
    )
    assert at(series(drawn["fig-04-class"], "mixed", "offload-proxy"), 290) == pytest.approx([0.48])


def test_fig_5_has_shares_of_the_mean(drawn: dict[str, Figure]) -> None:
    for op in ("pull", "push"):
        shares = {
            metric: dict(zip(found.x, found.y, strict=True))
            for metric in ("w_proc", "w_queue", "ps_proc", "ps_queue", "n_tx")
            for found in [series(drawn["fig-05"], op, metric)]
        }
        assert [shares[metric]["baseline"] * 219.2 for metric in shares] == pytest.approx(
            [3, 6, 40, 20, 150.2]
        )
        assert shares["ps_queue"]["proxy"] * 211.2 == pytest.approx(12)
        assert series(drawn["fig-05"], op, "n_tx").colour == COLOURS["n_tx"]


def test_fig_6_and_7_have_the_request_sizes_and_the_waits_of_servers(drawn: dict[str, Figure]) -> None:
    pulls = series(drawn["fig-06"], "pull", "baseline")
    # Two of 32 lanes and one of 8, behind a header of 56 B.
    assert list(zip(pulls.x, pulls.y, strict=True))[1:] == [(88, pytest.approx(1 / 3)), (184, 1)]
    assert at(series(drawn["fig-06"], "push", "offload"), 56) == [1]
    # Three RPCs at once, and half a period to the next operation: in 25 steps 49 of 149 intervals.
    waits = series(drawn["fig-07a"], "all servers", "baseline")
    assert at(waits, 1, 5000) == pytest.approx([100 / 149, 1])
    assert drawn["fig-07b"].facts["baseline", "p99"] == 1


def test_fig_10_is_of_the_baselines_updates(drawn: dict[str, Figure]) -> None:
    """All 72 keys are in each mini-batch."""
    curve = series(drawn["fig-10"], "", "R1")
    assert list(curve.y) == pytest.approx(list(np.asarray(curve.x, dtype=np.float64) / 72))
    assert curve.x[-1] == 72
