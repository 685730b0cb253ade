"""Numbers, page and command of the all-reduce comparison, with fake results."""

from __future__ import annotations

import html
import json
import math
import re
import signal
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from analysis.figures.figure_files import write_figures
from analysis.figures.model import Figure
from analysis.wording import plain
from hotline_allreduce.simulation.measure import AllReduceResult
from hotline_allreduce.study import page as zoo_page
from hotline_allreduce.study import plan as plans
from hotline_allreduce.study import point as points
from hotline_allreduce.study.breakdown import PARTS
from hotline_allreduce.study.fair import fair_tables
from hotline_allreduce.study.figures import figures_of
from hotline_allreduce.study.numbers import AllReduceNumbers, Line, numbers_of, run_plan
from hotline_allreduce.study.page import tables_of, write_page
from hotline_allreduce.study.plan import FULL, QUICK, AllReducePlan, points_by_loss, points_of, trainings
from hotline_allreduce.study.point import (
    AllReducePoint,
    AllReduceTrainingPoint,
    SharingPoint,
)
from hotline_allreduce.study.schemes import SCHEMES, scheme_of
from hotline_allreduce.study.sharing import SharingResult
from hotline_allreduce.study.training import AllReduceTrainingResult
from hotline_dense.catalogue import open_model
from hotline_simulator.study import Results, StudyPoint
from hotline_simulator.training import LossCurve
from tests.harness.cli import invoke
from tests.harness.studies import fake_runs

WriteFigures = Callable[[Sequence[Figure], Path], list[Path]]
SMALL = AllReducePlan(
    workers=(2, 4),
    values=100_000,
    lengths=(1_000, 10_000),
    seeds=3,
    steps=20,
    jobs=(1, 2),
    shared_values=10_000,
    model="resnet50",
)


def fake_result(point: StudyPoint) -> AllReduceResult | AllReduceTrainingResult | SharingResult:
    """Return a fake result whose time depends on values and bandwidth, plus a part per source of delay."""
    if isinstance(point, SharingPoint):
        rates = [3e6 / point.jobs, *[1e6 / point.jobs] * (point.jobs - 1)]
        return SharingResult(in_switch=point.slots / 20_000 / point.jobs, goodputs=rates)
    if isinstance(point, AllReducePoint):
        payload = scheme_of(point.scheme).subject.load(point.workers, 2) * point.values * 32e-9 / point.gbit
        more = 1.25 + 0.25 * point.has_latency + 0.5 * (point.hosts == "measured")
        more += 1_000 * point.loss * point.seed
        return AllReduceResult(
            workers=point.workers, servers=2, values=point.values, chunk_size=point.chunk_size, window=64,
            seconds=payload * more, limit_s=1.125 * payload, payload_limit_s=payload,
            worker_up=4 + 52 / point.chunk_size, worker_down=5.0, server_up=6.0, server_down=7.0,
            frames=1, retransmissions=0, dropped=0,
        )  # fmt: skip
    assert isinstance(point, AllReduceTrainingPoint)
    losses = [0.7 - 0.01 * k for k in range(20)]
    numbers = [float(k) for k in range(20)]
    return AllReduceTrainingResult(
        waits=point.design.is_lockstep, keys_per_step=3, parameters=9, step_us=1_234.5,
        steps_per_s=9_876.0, bytes_per_step=55_443.0, packets_per_step=321.0, server_packets_per_step=12.0,
        retransmissions=0, chance_loss=0.69, loss_curve=LossCurve(step=numbers, ms=numbers, loss=losses),
    )  # fmt: skip


@cache
def numbers(plan: AllReducePlan = SMALL) -> AllReduceNumbers:
    return numbers_of(plan, Results({point.name: fake_result(point) for point in points_of(plan)}))


def cells(found: AllReduceNumbers) -> dict[str, list[list[str]]]:
    """Return the rows of each table, by its title."""
    return {table.title: table.texts() for _, tables in tables_of(found) for table in tables}


def skip_figures(*_: object) -> list[Path]:
    """Replace the writing of figures, which takes seconds."""
    return []


def write_first_figure(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Replace the writing of all figures, each of which takes half a second."""
    return write_figures(figures[:1], folder)


# -- numbers


def test_goodput_is_counted_per_worker_and_is_the_median_of_several_seeds() -> None:
    found = numbers()
    line = next(each for each in found.goodput_by_workers if (each.scheme, each.gbit) == ("switchml", 10))
    # 100,000 values of 32 bits at 10 Gbit/s take 0.32 ms, and the fake delays half as long again.
    assert line.x == [2, 4] and line.y == pytest.approx([1e5 / (1.5 * 0.32e-3)] * 2)
    lossy = next(each for each in found.goodput_by_loss if (each.scheme, each.gbit) == ("ring", 100))
    assert lossy.x == list(plans.LOSSES) and lossy.low is not None and lossy.high is not None
    assert lossy.low[0] == lossy.y[0] == lossy.high[0]
    assert lossy.y[1] == pytest.approx(1e5 / (1.75 * 0.032e-3 * (1.5 + 0.1 * 2)))
    assert all(low < y < high for low, y, high in list(zip(lossy.low, lossy.y, lossy.high, strict=True))[1:])
    assert [len(each) for each in points_by_loss(SMALL, SCHEMES[0], 10.0)] == [1, 3, 3, 3]


def test_limits_and_parts_add_up() -> None:
    found = numbers().limits
    expected = [(of.name, gbit) for gbit in (10, 100) for of in SCHEMES]
    assert [(each.scheme, each.gbit) for each in found] == expected
    for each in found:
        assert list(each.parts_ms) == list(PARTS)
        assert math.fsum(each.parts_ms.values()) == pytest.approx(each.whole_ms)
        assert each.whole_ms == pytest.approx(3 * each.payload_ms)
        assert each.parts_ms["headers"] == pytest.approx(0.125 * each.payload_ms)
        assert each.parts_ms["hosts"] == pytest.approx(0.5 * each.payload_ms)
        assert each.parts_ms["retransmissions"] == pytest.approx(1.0 * each.payload_ms)


def test_a_step_of_a_model() -> None:
    model = open_model("resnet50")
    found = {(each.scheme, each.gbit): each for each in numbers().headlines}
    assert not {("switchml-checked", 10), ("atp", 10)} & set(
        found
    )  # ATP's tensors have up to 4 million values
    assert len(found) == 2 * (len(SCHEMES) - 2)
    at = found["switchml", 10.0]
    took = 1.5 * 25_557_032 * 32e-9 / 10 * 1e3
    assert at.all_reduce_ms == pytest.approx(took, rel=1e-3) and at.workers == 4
    assert at.after_ms == pytest.approx(at.compute_ms + at.all_reduce_ms)
    beside_ms = max(at.compute_ms, model.before_backward_us / 1e3 + at.all_reduce_ms)
    assert at.beside_ms == pytest.approx(beside_ms)
    assert numbers(QUICK).headlines == []


def test_training_is_compared_with_the_best_loss() -> None:
    for each in numbers().training:
        # The last tenth: 0.52 and 0.51; a tenth of the way back to 0.69.
        assert each.last_loss == pytest.approx(0.515)
        assert each.loss == pytest.approx(0.515 + 0.1 * (0.69 - 0.515))
        # The mean of five is that of the middle one.
        assert each.ms_to_loss == 19.0
        assert each.waits == (each.arm not in ("none", "offload"))


def test_jobs_that_share_a_switch_have_their_goodput_share_and_fairness_on_the_page() -> None:
    found = {(each.question, each.scheme, each.slots): each for each in numbers().jobs}
    atp = found["the switch's memory", "atp", 2_000]
    assert (atp.jobs, atp.goodput, atp.in_switch) == ([1, 2], [3e6, 1e6], [0.1, 0.05])
    assert atp.fairness == pytest.approx([1, 2**2 / (2 * (1.5**2 + 0.5**2))])
    of_memory = [(scheme, slots) for question, scheme, slots in found if question == "the switch's memory"]
    # SwitchML cannot run without memory; psdense and ring need none.
    assert {scheme for scheme, _ in of_memory} == {"switchml", "atp", "hotset"}
    assert ("switchml", 0) not in of_memory and {("atp", 0), ("hotset", 0)} < set(of_memory)
    uplinks = {scheme for question, scheme, _ in found if question == "one uplink"}
    assert uplinks == {each.name for each in SCHEMES if not each.is_checked} | {"hotset"}
    shown = cells(numbers())
    assert ["atp, 2,000 slots", "10%", "5%"] in shown["Share that the switch adds up"]
    assert ["ring, one uplink", "1.000", "0.800"] in shown["Jain's index"]


# -- the page


def test_the_page_has_the_numbers_of_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.page.study.write_figures", skip_figures)
    found = numbers()
    page = write_page(found, [("plan", "small")], tmp_path).read_text()
    assert AllReduceNumbers.model_validate_json((tmp_path / "numbers.json").read_bytes()) == found
    label = cells(found)
    text = html.unescape(re.sub(r"<[^>]*>", "\n", page))
    for title, rows in label.items():
        assert title in text
        assert all(cell in text for row in rows for cell in row)
    limit, first = found.limits[0], "switchml, 10 Gbit/s"

    def row(title: str, name: str) -> list[str]:
        return next(each for each in label[title] if each[0] == name)

    assert row("An all-reduce of 100,000 values by 8 workers", first)[1:] == [
        "2", f"{limit.payload_ms:.4g}", f"{limit.limit_ms:.4g}", f"{limit.ms:.4g}", "+50%", "+33.3%"
    ]  # fmt: skip
    parts = row("What the time is made of, ms", first)
    assert sum(map(float, parts[1:-1])) == pytest.approx(float(parts[-1]), abs=0.004)
    # 100,000 values of 32 bits at 10 Gbit/s take 0.32 ms, and the fake delays half as long again.
    assert label["Million values/s of a worker, published parameters"][0] == [
        "switchml, 256 values", "256", "256", "208", "2,080"
    ]  # fmt: skip
    fair_rows = [len(label[f"Million values/s of a worker, {title}"]) for title in fair_tables()]
    assert fair_rows == [6, 5, 4]
    octets = row("Frame bytes a value, without preambles and gaps", "switchml")
    assert octets[3:5] == ["64", f"{4 + 52 / 64:.2f}"] == ["64", "4.81"]
    assert row("Registers", "switchml")[1:] == ["16,384", "64", "4,194,304", "114,688", "4,308,992"]
    trained = label["10 Gbit/s"]
    assert ["ring", "wait", "9,876", "1,234", "55,443", "321", "12", "0.5150", "19.0"] in trained


def test_figures_have_the_numbers_of_the_tables() -> None:
    found = numbers()
    drawn: dict[str, Figure] = {figure.name: figure for figure in figures_of(found)}
    assert set(drawn) == {
        "allreduce-workers", "allreduce-packets", "allreduce-loss", "allreduce-taken", "allreduce-length",
        "allreduce-parts", "allreduce-jobs", "allreduce-jobs-switch",
        "allreduce-loss-steps", "allreduce-loss-time",
    }  # fmt: skip
    for figure in drawn.values():
        assert not figure.is_empty
    [first, second] = drawn["allreduce-workers"].panels
    assert (first.title, second.title) == ("10 Gbit/s", "100 Gbit/s")
    assert [series.name for series in first.series] == [each.name for each in SCHEMES]
    assert first.series[0].y.tolist() == [1e-6 * y for y in found.goodput_by_workers[0].y]
    bars = drawn["allreduce-parts"].panels[0].series
    [limit, *_] = found.limits
    assert sum(series.y[0] for series in bars) == pytest.approx(limit.ms / limit.payload_ms)
    assert len(drawn["allreduce-loss-time"].panels) == len(trainings(SMALL))


# -- doing it


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[StudyPoint]:
    """Return the points as they are run, with fake results."""
    return fake_runs(monkeypatch, fake_result)


def no_progress(done: int, total: int, name: str) -> None:
    pass


def test_finished_work_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: list[StudyPoint]
) -> None:
    first = run_plan(SMALL, tmp_path, None, 1, no_progress)
    every = len(points_of(SMALL))
    assert len(done) == len({each.name for each in done}) == every and first == numbers()
    assert run_plan(SMALL, tmp_path, None, 1, no_progress) == first and len(done) == every
    monkeypatch.setattr(points, "SWITCH_US", 2.0)
    run_plan(SMALL, tmp_path, None, 1, no_progress)
    near = sum(isinstance(point, AllReducePoint) and not point.has_latency for point in points_of(SMALL))
    assert len(done) == 2 * every - near and near == 2 * len(SCHEMES)


@pytest.mark.parametrize("write", [write_first_figure, pytest.param(write_figures, marks=pytest.mark.soak)])
def test_the_command_writes_the_report_the_json_and_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: list[StudyPoint], write: WriteFigures
) -> None:
    monkeypatch.setattr("analysis.page.study.write_figures", write)
    command = ("allreduce", "--quick", "--into", tmp_path / "allreduce")
    run = invoke(*command, "--json")
    assert run.exit_code == 0, run.output
    assert AllReduceNumbers.model_validate(json.loads(run.stdout)) == numbers(QUICK)
    assert f"{len(done)} of {len(done)}: {done[-1].name}" in run.stderr
    monkeypatch.setattr("analysis.page.study.write_figures", skip_figures)
    second = invoke(*command)
    assert second.stdout == f"report: {tmp_path / 'allreduce' / 'report.html'}\n"
    assert (tmp_path / "allreduce" / "figures" / "allreduce-workers.csv").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--processes", "0"], 2, "0 is not in the range"),
        (["--scheduler", "nowhere"], 1, "--scheduler nowhere"),
        (["--into", "file"], 2, "is a file"),
        (["--into", "file/allreduce"], 1, "file/allreduce: cannot be made: Not a directory"),
        (["ring"], 2, "unexpected extra argument (ring)"),
    ],
)
def test_wrong_options_are_refused_and_write_no_report(
    options: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    run = invoke("allreduce", *options)
    assert (run.exit_code, run.stdout) == (code, "") and message in run.stderr
    assert not Path("runs/allreduce/report.html").exists()


def test_ctrl_c_keeps_the_finished_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: list[StudyPoint]
) -> None:
    def interrupted(count: int, total: int, name: str) -> None:
        if count == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_plan(SMALL, tmp_path, None, 1, interrupted)
    assert len(list((tmp_path / "points").glob("*.json"))) == 3
    run_plan(SMALL, tmp_path, None, 1, no_progress)
    assert len(done) == len(points_of(SMALL))


def test_the_plans_have_the_documented_workers_values_and_points() -> None:
    assert (FULL.workers, FULL.values) == ((2, 4, 8, 16, 32), 500_000)
    assert (QUICK.workers, QUICK.values, QUICK.model) == ((2, 8, 32), 100_000, None)
    assert (len(points_of(FULL)), len(points_of(QUICK))) == (451, 271)
    assert plans.LOSSES == (0, 0.0001, 0.001, 0.01) and plans.GBITS == (10, 100)


def test_rates_have_three_digits_and_no_powers_of_ten() -> None:
    lines = [Line(scheme="ring", gbit=100, x=[0.0, 0.0001, 0.01], y=[1_321_000_000.0, 22.94e6, 734_900.0])]
    table = zoo_page.goodput_table("lost", lines, is_share=True)
    assert list(table.columns) == ["", "0 %", "0.01 %", "1 %"]
    [row] = table.rows
    assert [str(cell) for cell in row[1:]] == [str(plain(message)) for message in ("1,320", "22.9", "0.735")]
    assert list(zoo_page.goodput_table("workers", lines).columns)[1:] == ["0", "0.0001", "0.01"]
