"""Small trainings and runs of the study, its numbers, figures and tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.figures.figure_files import draw
from analysis.page.plots import plot
from experiment.run_config import WorkloadShape
from hosts.agent_config import CollectionSettings
from hotline_allreduce.study.point import host_costs, make_network
from hotline_optimisers import plan
from hotline_optimisers.figures import figures_of
from hotline_optimisers.numbers import OptimiserNumbers, run_plan
from hotline_optimisers.offload import Offload, simulate_changes
from hotline_optimisers.page import tables_of
from hotline_optimisers.plan import ARMS, BUDGETS, OptimiserPlan
from hotline_optimisers.training import Data, OptimiserTraining, OptimiserTrainingResult, train
from hotline_simulator import study

SHAPE = WorkloadShape(parameters=30_000, hot_parameters=600, keys_per_step=300)
CLICKS = Data(name="clicks", hot_keys=600, shape=SHAPE)
SMALL = OptimiserPlan(
    {"clicks": 40, "ratings": 40, "dlrm": 40}, (0.3, 0.6), 60, factors=(0.5, 1.0), shape=SHAPE,
    rows=(5, 40, 300), block_ms=60, calibration_s=0.05,
)  # fmt: skip
SOME_BUDGETS = (BUDGETS[0], BUDGETS[-1])  # those of the map of gains, to save simulations


def trained(way: str, rate: float, budget: CollectionSettings | None = None) -> OptimiserTrainingResult:
    job = OptimiserTraining.model_validate(
        dict(data=CLICKS, way=way, learning_rate=rate, steps=400, is_tuning=False, budget=budget)
    )
    return train(job, make_network(10.0), host_costs("measured"))


def test_staleness_costs_loss_and_saves_servers_time() -> None:
    servers = trained("adagrad", 0.2)
    often, seldom = (
        trained("collect", 0.2, CollectionSettings(staleness_ms=ms, share_of_server=share))
        for ms, share in ((5, 0.5), (1000, 0.002))
    )
    assert servers.ages is None and often.ages is not None and seldom.ages is not None
    assert often.ages.p50 < 10 < seldom.ages.p99
    assert servers.last_loss < often.last_loss < servers.last_loss + 0.01 < seldom.last_loss - 0.05
    assert often.server_us_per_step > seldom.server_us_per_step
    assert often.steps_per_s > 1.05 * servers.steps_per_s
    assert 0.4 < servers.hot_share < 0.6 and servers.keys_per_step == pytest.approx(300, rel=0.03)


def test_sgd_adds_alike_at_servers_and_in_the_switch() -> None:
    at_servers, in_switch = trained("sgd", 1.0), trained("sgd-hotset", 1.0)
    assert in_switch.last_loss == pytest.approx(at_servers.last_loss, abs=0.005)
    assert at_servers.last_loss < 0.52 and in_switch.steps_per_s > 1.05 * at_servers.steps_per_s


def test_servers_collect_though_all_keys_are_in_the_switch() -> None:
    job = OptimiserTraining(
        data=Data(name="dlrm", batch=8, rows=(5, 40)), way="collect", learning_rate=0.1, steps=60,
        is_tuning=True, budget=BUDGETS[0],
    )  # fmt: skip
    found = train(job, make_network(10.0), host_costs("measured"))
    assert found.hot_share > 0.99 and found.ages is not None and found.server_us_per_step > 1
    assert found.last_loss < found.loss_curve.loss[0]


def test_a_larger_budget_costs_servers_time_and_keeps_values_young() -> None:
    few, many = (
        simulate_changes(
            Offload(
                hit_share=0.5, budget=CollectionSettings(staleness_ms=ms, share_of_server=share), steps=100,
                shape=SHAPE, block_ms=200, calibration_s=0.05,
            )
        )
        for ms, share in ((200, 0.05), (5, 0.5))
    )  # fmt: skip
    assert many.p50_ms < few.p50_ms and many.p99_ms < 20 < few.p99_ms
    assert many.servers > few.servers + 0.2
    # Workers see the same switch.
    assert many.packets == pytest.approx(few.packets, abs=0.01) and few.packets < -0.3
    assert few.capacity > 0.05


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OptimiserNumbers]:
    """Return those of a small plan, whose points are run in this process."""

    def run_on_this_machine(function, texts, *_):  # type: ignore[no-untyped-def]
        yield from enumerate(function(*arguments) for arguments in texts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan, "BUDGETS", SOME_BUDGETS)
        patched.setattr(study, "run_in_parallel", run_on_this_machine)
        folder: Path = tmp_path_factory.mktemp("optimisers")
        found = run_plan(SMALL, None, folder, None, 1, lambda *_: None)
        patched.setattr(study, "run_in_parallel", None)
        # Cached results are used again.
        assert run_plan(SMALL, None, folder, None, 1, lambda *_: None) == found
        yield found


def test_each_curve_has_the_learning_rate_with_the_least_loss(numbers: OptimiserNumbers) -> None:
    assert [(each.data, each.label) for each in numbers.curves] == [
        (data, arm.label) for data in ("clicks", "dlrm") for arm in ARMS
    ]
    for curve in numbers.curves:
        assert len(curve.tried) == 2 and curve.is_edge
        assert curve.tried[f"{curve.learning_rate:g}"] == min(curve.tried.values())
        assert curve.result.last_loss < 0.75


def test_figures_and_tables_have_all_points(numbers: OptimiserNumbers) -> None:
    losses, offload_map = figures_of(numbers)
    assert [panel.x.title if panel.x else "" for panel in losses.panels] == [
        "ms, simulated", "mini-batches of all workers"
    ] * 2  # fmt: skip
    assert all([each.name for each in panel.series] == [arm.label for arm in ARMS] for panel in losses.panels)
    for panel in offload_map.panels:
        [surface] = panel.series
        assert surface.z is not None and surface.z.shape == (len(SOME_BUDGETS), 2)
    of_packets = offload_map.panels[1].series[0].z
    assert of_packets is not None and (of_packets[:, 1] < of_packets[:, 0]).all()
    tables = [table for _, of in tables_of(numbers) for table in of]
    assert [len(table.rows) for table in tables] == [len(ARMS), len(ARMS), 2 * len(SOME_BUDGETS)]


def test_panels_with_own_axes_have_the_same_axes_on_paper_and_page(numbers: OptimiserNumbers) -> None:
    losses, _ = figures_of(numbers)
    axes = draw(losses).axes
    assert [axis.get_xlabel() for axis in axes] == ["ms, simulated", "mini-batches of all workers"] * 2
    assert [axis.get_ylabel() for axis in axes] == ["log loss, nats", ""] * 2
    assert axes[0].get_xlim() != axes[2].get_xlim() and axes[0].get_ylim() == axes[1].get_ylim()
    panels = plot(losses).spec["panels"]
    assert [panel["x"]["title"] for panel in panels[:2]] == ["ms, simulated", "mini-batches of all workers"]
