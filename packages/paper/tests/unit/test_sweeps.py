"""Figures over runs whose numbers are known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.record import Block, ServerUse
from analysis.statistics import Comparison
from hotline_paper.numbers import CHANGE_METRICS
from hotline_paper.sweeps import METRIC_TITLES, changes_by_workers, sweep, sweeps, utilisation
from tests.harness.records import a_block


def block(arm: str, workers_s: float, servers_s: float) -> Block:
    use = ServerUse(cpu_s=servers_s)
    return a_block(0, arm, servers=use, worker_cpu_s=workers_s, duration_ms=500.0)


class Run:
    """A run in which each key of the hot set reduces every metric by 0.01 %."""

    def __init__(self, workers: int, servers: int, top_k: int, skew: float = 0.5, keys: int = 1) -> None:
        workload = SimpleNamespace(hot_share=skew, keys_per_step=keys)
        self.config = SimpleNamespace(workers=workers, servers=servers, top_k=top_k, workload=workload)
        blocks = [block(arm, 0.05 * workers, 0.1) for arm in ("baseline", "offload") for _ in range(2)]
        self.record = SimpleNamespace(blocks=blocks)
        self.folder = Path("run")

    def difference(self, metric: str) -> Comparison:
        ratio = -self.config.top_k / 10_000
        baseline = 100.0 + [*METRIC_TITLES, *CHANGE_METRICS.values()].index(metric)
        return Comparison(
            reference=baseline, value=baseline * (1 + ratio), difference=baseline * ratio,
            low=None, high=None, ratio=ratio, ratio_low=ratio - 0.01, ratio_high=ratio + 0.02,
        )  # fmt: skip


def runs(*settings: tuple[int, int, int]) -> list[Any]:
    return [Run(*each) for each in settings]


def test_a_sweep_has_each_metric_without_and_with_offload_and_its_interval() -> None:
    unordered = runs((4, 2, 5_000), (4, 2, 1_000))
    found = sweep(unordered, "s", "title", "top-k", lambda run: run.config.top_k)
    assert [panel.title for panel in found.panels] == list(METRIC_TITLES.values())
    for number, panel in enumerate(found.panels):
        without, with_offload = panel.series
        assert list(without.x) == list(with_offload.x) == [1_000, 5_000]
        assert list(without.y) == [100 + number] * 2
        assert list(with_offload.y) == pytest.approx([(100 + number) * 0.9, (100 + number) * 0.5])
        assert with_offload.low is not None and with_offload.high is not None
        assert list(with_offload.low) == pytest.approx([(100 + number) * 0.89, (100 + number) * 0.49])
        assert list(with_offload.high) == pytest.approx([(100 + number) * 0.92, (100 + number) * 0.52])


def on_grid(skew: float, keys: int) -> Any:
    return Run(4, 2, top_k=round(1_000 * skew), skew=skew, keys=keys)


def test_the_maps_runs_are_drawn_along_skew_and_along_the_size_of_a_step() -> None:
    """Skew among the largest steps; size of a step at the skew that has most of them."""
    grid = {f"map-{skew}-{keys}": on_grid(skew, keys) for skew in (0.7, 0.1, 0.3) for keys in (500, 3_000)}
    grid["map-0.3-1200"] = on_grid(0.3, 1_200)
    by_skew, by_keys = sweeps(grid)
    assert (by_skew.name, by_keys.name) == ("sweep-skew", "sweep-keys")
    assert list(by_skew.panels[0].series[1].x) == [0.1, 0.3, 0.7]
    assert list(by_skew.panels[0].series[1].y) == pytest.approx([99, 97, 93])
    assert list(by_keys.panels[0].series[1].x) == [500, 1_200, 3_000]
    assert list(by_keys.panels[0].series[1].y) == pytest.approx([97] * 3)


def test_every_kind_of_stage_has_its_figures() -> None:
    found: dict[str, Any] = {name: Run(4, 2, 1) for name in ("top-k-1", "scale-4-2", "map-1", "r1")}
    names = [figure.name for figure in sweeps(found)]
    assert names == [
        "sweep-top-k", "sweep-skew", "sweep-keys", "sweep-workers", "map-workers", "fig-08",
    ]  # fmt: skip
    assert list(sweeps({})) == []


def test_the_figure_shows_the_changes_by_offload_for_each_number_of_workers() -> None:
    found = changes_by_workers(runs((16, 4, 3_000), (2, 2, 1_000)))
    titles = ["packets to the servers", "servers' CPU", "workers' CPU", "time of a pull", "time of a push"]
    assert [panel.title for panel in found.panels] == titles
    for panel in found.panels:
        [relative_change] = panel.series
        assert relative_change.name == "offload against baseline"
        assert list(relative_change.x) == [2, 16]
        assert list(relative_change.y) == pytest.approx([-0.1, -0.3])
        assert relative_change.low is not None and relative_change.high is not None
        assert list(relative_change.low) == pytest.approx([-0.11, -0.31])
        assert list(relative_change.high) == pytest.approx([-0.08, -0.28])


def test_utilisation_is_cpu_time_over_time_by_arm() -> None:
    """Workers take 0.05 s each of half a second, servers 0.1 s."""
    found = utilisation(runs((16, 4, 1), (2, 2, 1)))
    assert [panel.title for panel in found.panels if len(panel.series)] == ["baseline", "offload"]
    for panel in found.panels:
        workers, servers = panel.series
        assert (list(workers.x), list(servers.x)) == ([2, 16], [2, 16])
        assert list(workers.y) == pytest.approx([0.2, 1.6])
        assert list(servers.y) == pytest.approx([0.2, 0.2])
