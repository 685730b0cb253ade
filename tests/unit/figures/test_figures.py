"""Figures of hand-made logs: each number that is drawn, and that the tables have of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.figures.all import figures
from analysis.figures.connections import concurrency, intervals
from analysis.figures.correlation import arithmetic_share, correlations
from analysis.figures.figure_files import draw
from analysis.figures.latency import breakdown, latencies, response_sizes
from analysis.figures.model import Axis, Figure, Panel, Series
from analysis.figures.update_coverage import share_of_updates
from analysis.page.plots import plot
from analysis.paper import column_titles, findings
from tests.unit.figures.cluster import cluster, rows


def only(figure: Figure, panel: str) -> Series:
    [found] = [series for each in figure.panels if each.title == panel for series in each.series]
    return found


def at(series: Series, x: float) -> float:
    """Return the value of a CDF at x."""
    edges = np.asarray(series.x, dtype=np.float64)
    place = np.searchsorted(edges, x * (1 + 1e-9), side="right") - 1
    return float(series.y[place]) if place >= 0 else 0.0


def test_latency_is_the_five_metrics_together(tmp_path: Path) -> None:
    source = cluster(tmp_path, rows({}, {}, {}, {"n_tx_us": 960.0}, {"op": "push", "ps_proc_us": 9930.0}))
    found = latencies([source])
    pull, push = only(found, "pull"), only(found, "push")
    assert [at(pull, us) for us in (90, 100, 990, 1000)] == [0, 0.75, 0.75, 1]
    assert [at(push, us) for us in (9990, 10_000)] == [0, 1]
    assert found.facts["cluster", "pull", "p50"] == pytest.approx(100)
    assert found.facts["cluster", "pull", "p99"] == pytest.approx(1000)


@pytest.mark.parametrize(("quantile", "below"), [("p50", 499), ("p99", 989)])
def test_a_quantile_is_the_value_of_its_rank(tmp_path: Path, quantile: str, below: int) -> None:
    latencies_us = [1000.0] * below + [2000.0] + [4000.0] * (999 - below)
    log = rows(*({"n_tx_us": us - 40} for us in latencies_us))  # the other parts take 40 µs
    found = latencies([cluster(tmp_path, log)])
    assert found.facts["cluster", "pull", quantile] == pytest.approx(2000, rel=0.024)


def test_the_breakdown_of_latency_has_shares_of_the_mean(tmp_path: Path) -> None:
    found = breakdown([cluster(tmp_path, rows({}, {"n_tx_us": 160.0}, {"op": "push"}))])
    [pull, _] = found.panels
    assert {series.name: float(series.y[0]) for series in pull.series} == pytest.approx(
        {"w_proc": 1 / 150, "w_queue": 2 / 150, "ps_proc": 30 / 150, "ps_queue": 7 / 150, "n_tx": 110 / 150}
    )
    assert found.facts["cluster", "pull", "n_tx"] == 110 and found.facts["cluster", "push", "latency"] == 100
    assert found.facts["cluster", "pull", "request"] == 100


def test_response_sizes_are_exact(tmp_path: Path) -> None:
    source = cluster(
        tmp_path, rows(*({"response_bytes": size} for size in (56, 184, 184, 184)), {"op": "push"})
    )
    found = response_sizes([source])
    assert [at(only(found, "pull"), size) for size in (55, 56, 183, 184)] == [0, 0.25, 0.25, 1]
    assert found.facts == {("cluster", "pull", "p50"): 184, ("cluster", "push", "p50"): 200}


@pytest.mark.parametrize("part_rows", [30_000_000, 2])
def test_intervals_are_of_one_worker_at_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_rows: int
) -> None:
    """Worker 1 calls PS 0 at 0, 10 and 1,010; PS 1 at 5; worker 2 PS 0 at 7 and again at once."""
    monkeypatch.setattr("analysis.figures.connections._PART_ROWS", part_rows)
    calls = [(1, 0, 1010), (1, 0, 0), (1, 1, 5), (2, 0, 7), (1, 0, 10), (2, 0, 7)]
    source = cluster(tmp_path, rows(*({"worker": w, "ps": ps, "t_send_us": us} for w, ps, us in calls)))
    series = only(intervals([source]), "all servers")
    assert [at(series, us) for us in (1, 9, 10, 990, 1000)] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3, 1])


def test_concurrent_connections_are_unique_workers_in_a_millisecond(tmp_path: Path) -> None:
    """PS 0: workers 1, 2, 1 in the first, 3 in the second; PS 1: worker 1. No request in the third."""
    log = pl.DataFrame(
        [(0, 0, 1), (999, 0, 2), (500, 0, 1), (1000, 0, 3), (10, 1, 1), (3000, 0, 1)],
        schema=["time_us", "ps", "worker"],
        orient="row",
    )
    found = concurrency([cluster(tmp_path, rows({}), connections=log)])
    assert [at(only(found, "all servers"), number) for number in (0, 1, 2)] == [0, 0.75, 1]
    assert found.facts == {("cluster", "p50"): 1, ("cluster", "p99"): 2}


def test_the_share_of_updates_by_the_hottest(tmp_path: Path) -> None:
    keys = 40_000
    updates = pl.DataFrame({"key": range(keys), "updates": [3 if key < 10_000 else 1 for key in range(keys)]})
    source = cluster(tmp_path, rows({}), updates=updates)
    found = share_of_updates([source])
    # 10,000 of three updates, and 10,000 of one, of 60,000.
    assert found.facts == pytest.approx({("logs",): 40_000 / 60_000})
    points = only(found, "")
    assert float(np.interp(10_000, np.asarray(points.x, float), points.y)) == pytest.approx(0.5, abs=2e-3)


def test_correlations_are_of_ranks(tmp_path: Path) -> None:
    """PS_proc rises with size, however crooked; N_tx falls with how many call in the same millisecond."""
    calls = [
        {"t_send_us": window * 1000, "worker": worker, "request_bytes": 10 * window**2,
         "ps_proc_us": 1.5**window, "n_tx_us": 50.0 - window}
        for window in range(1, 9)
        for worker in range(window)
    ]  # fmt: skip
    answered_by_switch: dict[str, object] = {"t_send_us": 1000, "ps_proc_us": 0.0, "request_bytes": 9_999}
    [found] = correlations(cluster(tmp_path, rows(*calls, answered_by_switch))).values()
    assert found["size", "ps_proc"] == pytest.approx(1)
    assert found["frequency", "ps_proc"] == pytest.approx(1)
    assert found["connections", "n_tx"] == pytest.approx(-1)


def test_the_share_of_arithmetic() -> None:
    assert arithmetic_share(pull=39.0, push=40.0) == 0.025
    assert arithmetic_share(pull=50.0, push=40.0) == -0.25


def test_a_negative_share_of_arithmetic_is_below_noise(tmp_path: Path) -> None:
    calls: list[dict[str, object]] = [{"ps_proc_us": 40.0}, {"op": "push", "ps_proc_us": 39.0}]
    found = findings(["cluster"], list(figures([cluster(tmp_path, rows(*calls))])), None)
    [here] = [each.measured for each in found if "arithmetic" in each.quantity]
    assert here == ("below noise",)


def test_findings_of_a_cluster_stand_beside_the_papers(tmp_path: Path) -> None:
    calls: list[dict[str, object]] = [
        {},
        {"n_tx_us": 960.0, "t_send_us": 50},
        {"op": "push", "ps_proc_us": 40.0, "response_bytes": 56},
    ]
    log = pl.DataFrame({"time_us": [0, 1], "ps": [0, 0], "worker": [1, 2]})
    source = cluster(tmp_path, rows(*calls), connections=log)
    assert column_titles(source.arms) == {"cluster": "here"}
    found = findings(source.arms, list(figures([source])), None)
    expected = [
        (("p99", "p50: pull, push", "Fig. 4"), "heavy tails", "× 10.0, × 1.0"),
        (("push / median pull", "Fig. 4"), "above 1", "× 1.12"),
        (("pull", "Fig. 5"), "PS_proc, N_tx", "N_tx 93 %, PS_proc 5 %"),
        (("push", "Fig. 5"), "PS_proc, N_tx", "N_tx 55 %, PS_proc 36 %"),
        (("mean request: pull, push",), "100–200 B", "100 B, 100 B"),
        (("median response: pull, push", "Fig. 6"), "large, small", "200 B, 56 B"),
        (("worker's", "p50, p99", "Fig. 7a"), "very short, a few long", "1 µs, 50 µs"),
        (("workers", "1,000 µs: p50, p99", "Fig. 7b"), "50–200", "2, 2"),
        (("arithmetic", "push's PS_proc", "§3.2"), "at most 2.5 %", "25.0 %"),
    ]
    assert [(each.paper, each.measured) for each in found] == [
        (paper, (here,)) for _, paper, here in expected
    ]
    for each, (words, *_) in zip(found, expected, strict=True):
        assert all(word in each.quantity for word in words)


def test_figures_without_data_in_the_logs_are_left_out(tmp_path: Path) -> None:
    source = cluster(tmp_path, rows({}))
    drawn = {figure.name for figure in figures([source])}
    assert drawn == {"fig-04", "fig-05", "fig-06", "sec-3-2"}
    reported = [each.quantity for each in findings(source.arms, list(figures([source])), None)]
    assert not [what for what in reported if "Fig. 7" in what or "§3.2" in what]


@pytest.mark.parametrize(
    ("values", "limits", "log_limits"),
    [
        ([55.0, 55.0, 56.0], (0.0, 70.0), (17.55, 175.5)),
        ([55.0, 60.0], None, None),
        ([-56.0, -55.0], (-70.0, 0.0), None),
        ([0.0, 0.0], (0.0, 1.0), None),
        ([7.0], (0.0, 8.75), (2.2136, 22.136)),
        ([], None, None),
        ([np.nan, np.inf], None, None),
    ],
)
@pytest.mark.parametrize("side", ["x", "y"])
def test_an_axis_does_not_magnify_nearly_equal_values(
    values: list[float], limits: tuple[float, float] | None, log_limits: tuple[float, float] | None, side: str
) -> None:
    """In the page and in files, on either axis and either scale."""
    others = np.linspace(1, 100, len(values))
    points = {"x": others, "y": others, side: np.array(values)}
    for is_log in (False, True):
        axes = {name: Axis(name, is_log=is_log and name == side) for name in ("x", "y")}
        panel = Panel("all", (Series("baseline", points["x"], points["y"], "#777777"),))
        figure = Figure("sizes", "Sizes", axes["x"], axes["y"], (panel,), "steps")
        spec = plot(figure).spec["panels"][0][side]
        assert spec["range"] == (None if limits is None else pytest.approx(limits))
        if is_log:
            assert spec["log_range"] == (None if log_limits is None else pytest.approx(log_limits, rel=1e-3))
        expected = log_limits if is_log else limits
        if expected is not None:
            [axis] = draw(figure).axes
            assert getattr(axis, f"get_{side}lim")() == pytest.approx(expected, rel=1e-3)


def test_limits_that_are_given_or_not_wanted_stay() -> None:
    values = np.array([55.0, 56])
    assert Axis("share", limits=(0.0, 1.0)).limits_of(values, is_log=False) == (0, 1)
    assert Axis("loss", max_alike_spread=0.0).limits_of(values, is_log=False) is None


def test_a_series_without_points_has_no_rows_in_the_table() -> None:
    series = [
        Series(name, np.arange(n, dtype=np.float64), np.arange(n, dtype=np.float64))
        for name, n in (("empty", 0), ("full", 1))
    ]
    figure = Figure("sizes", "Sizes", Axis("B"), Axis("count"), [Panel("", series)])
    assert plot(figure).numbers.titles == ["full: 0"]
