"""The tables of docs/reliability.md about deaths in sessions of `hotline up`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tools.bench.deaths.checkpoints import Killed
from tools.bench.deaths.restarts import Restart
from tools.bench.deaths.training import Trained
from tools.evidence.result import Cell, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, json_output, typed

_STEP = typed("deaths", "python -m tools.bench.deaths --json", "--folder", "{folder}")
_STATISTIC = "median of {}, the lowest and the highest"


def tables(folder: Path) -> dict[str, Table]:
    found = json_output(folder, _STEP.name)
    return {
        "deaths-checkpoints": _checkpoints([Killed(**each) for each in found["checkpoints"]]),
        "deaths-training": _training([Trained(**each) for each in found["training"]]),
        "deaths-restarts": _restarts([Restart(**each) for each in found["restarts"]]),
    }


def _checkpoints(kills: Sequence[Killed]) -> Table:
    """One row an interval; costs are ratios to the session without checkpoints in the same pass."""
    by_interval: dict[float | None, list[Killed]] = {}
    for each in kills:
        by_interval.setdefault(each.interval_s, []).append(each)
    without = by_interval[None]
    figures: Mapping[str, tuple[str, Callable[[Killed, Killed], float]]] = {
        "training before the kill, s": ("{:,.1f}", lambda each, _: each.trained_s),
        "of it lost, s": ("{:,.1f}", lambda each, _: each.lost_s),
        "until `hotline up` is ready, s": ("{:,.1f}", lambda each, _: each.up_s),
        "from there to the first steps, s": ("{:,.1f}", lambda each, _: each.first_step_s),
        "in all, s": ("{:,.1f}", lambda each, _: each.lost_s + each.up_s + each.first_step_s),
        "steps/s, of those without": ("× {:.2f}", lambda each, base: each.rate / base.rate),
        "servers' CPU a step, of that without": (
            "× {:.2f}", lambda each, base: each.servers_cpu_us / base.servers_cpu_us,
        ),
        "a core's time for the keeper, %": ("{:,.1f}", lambda each, _: 100 * each.keeper_cpu),
        "size of the file, MB": ("{:,.1f}", lambda each, _: each.file_bytes / 1e6),
    }  # fmt: skip
    return make_table(
        "what a killed session loses, and what checkpoints cost",
        _STATISTIC.format("sessions"),
        ("interval",),
        {title: form for title, (form, _) in figures.items()},
        {
            ("no checkpoint" if interval_s is None else f"{interval_s:g} s",): [
                _measured(figure(each, base) for each, base in zip(of_interval, without, strict=True))
                for _, figure in figures.values()
            ]
            for interval_s, of_interval in by_interval.items()
        },
    )


def _training(trained: Sequence[Trained]) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for every in dict.fromkeys(each.every for each in trained):
        found = [each for each in trained if each.every == every]
        rows["never" if every is None else f"every {every} steps",] = [
            _measured(each.rmse for each in found),
            float(sum(each.deaths for each in found)),
            float(sum(each.unacknowledged for each in found)),
            float(sum(each.missing for each in found)),
            _measured(each.seconds for each in found),
        ]
    return make_table(
        "training in which workers die",
        _STATISTIC.format("seeds") + "; counts are sums over them",
        ("each worker dies",),
        {
            "RMSE of held-out ratings": "{:.4f}",
            "deaths": "{:,.0f}",
            "steps under way at a death": "{:,.0f}",
            "of them not in the model": "{:,.0f}",
            "time, s": "{:,.1f}",
        },
        rows,
    )


def _restarts(restarts: Sequence[Restart]) -> Table:
    return make_table(
        "a worker of eight dies, and another takes its rank",
        _STATISTIC.format(f"{len(restarts)} deaths"),
        ("what",),
        {"measured": "{:,.2f}"},
        {
            ("steps/s of the other seven while it is away, of those before",): [
                _measured(each.away / each.before for each in restarts)
            ],
            ("steps/s of the other seven after it, of those before",): [
                _measured(each.after / each.before for each in restarts)
            ],
            ("from the kill to the successor's first acknowledged push, s",): [
                _measured(each.away_s for each in restarts)
            ],
        },
    )


def _measured(values: Iterable[float]) -> Measured:
    found = sorted(values)
    return Measured(value=median(found), low=found[0], high=found[-1])


DEATHS = Stage(
    name="deaths",
    minutes=8,
    results=("deaths-checkpoints", "deaths-training", "deaths-restarts"),
    steps=(_STEP,),
    tables=tables,
    modules=(
        "tools.bench.deaths.__main__",
        "tools.bench.deaths.trainer",
        "hotline_scripts.up",
        "hotline_scripts.keeper",
        *REAL_RUN,
    ),
    files=("examples/matrix_factorisation.py", "p4src/hotset/*.p4", "p4src/common/*.p4"),
    seeds=(1, 2, 3),
    needs="two quiet cores and root",
)
