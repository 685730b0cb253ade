"""The tables of docs/reliability.md about deaths in sessions of `hotline up`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tools.bench.deaths.checkpoints import Killed
from tools.bench.deaths.restarts import LOADS, Restart
from tools.bench.deaths.training import Trained
from tools.evidence.result import Cell, Column, Measured, Row, Table, make_table
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


_FIGURES: Mapping[str, tuple[str, Callable[[Killed, Killed], float]]] = {
    "training before the kill, s": ("{:,.1f}", lambda each, _: each.trained_s),
    "of it lost, s": ("{:,.1f}", lambda each, _: each.lost_s),
    "until `hotline up` is ready again, s": ("{:,.1f}", lambda each, _: each.up_s),
    "from there until all workers train, s": ("{:,.1f}", lambda each, _: each.first_step_s),
    "lost time in all, s": ("{:,.1f}", lambda each, _: each.lost_s + each.up_s + each.first_step_s),
    "steps/s": ("× {:.2f}", lambda each, base: each.rate / base.rate),
    "servers' CPU a step": ("× {:.2f}", lambda each, base: each.servers_cpu_us / base.servers_cpu_us),
    "CPU time of the keeper, % of a core": ("{:,.1f}", lambda each, _: 100 * each.keeper_cpu),
    "size of the file, MB": ("{:,.1f}", lambda each, _: each.file_bytes / 1e6),
}
"""Row -> its form, and its number for a session and the one without checkpoints in the same pass."""


def _checkpoints(kills: Sequence[Killed]) -> Table:
    by_interval: dict[float | None, list[Killed]] = {}
    for each in kills:
        by_interval.setdefault(each.interval_s, []).append(each)
    names = ["no checkpoint" if each is None else f"every {each:g} s" for each in by_interval]
    return Table(
        quantity="what a killed session loses, and what checkpoints cost",
        statistic=f"{_STATISTIC.format('sessions')}; × is the ratio to the session without checkpoints",
        headings=("what",),
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(
            Row(
                names=(title,),
                cells=tuple(_measured(map(figure, each, by_interval[None])) for each in by_interval.values()),
                form=form,
            )
            for title, (form, figure) in _FIGURES.items()
        ),
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
            "whose last push is not in the model": "{:,.0f}",
            "time, s": "{:,.1f}",
        },
        rows,
    )


def _restarts(restarts: Sequence[Restart]) -> Table:
    by_load = [[each for each in restarts if each.load == load] for load in LOADS]
    figures: Mapping[str, Callable[[Restart], float]] = {
        "steps/s of the others while it is away, of those before": lambda each: each.away / each.before,
        "steps/s of the others after it, of those before": lambda each: each.after / each.before,
        "from the kill to the successor's first acknowledged push, s": lambda each: each.away_s,
    }
    return make_table(
        "a worker dies, and another takes its rank",
        _STATISTIC.format(f"{len(by_load[0])} deaths"),
        ("what",),
        dict.fromkeys(LOADS, "{:,.2f}"),
        {(title,): [_measured(map(figure, found)) for found in by_load] for title, figure in figures.items()},
    )


def _measured(values: Iterable[float]) -> Measured:
    found = sorted(values)
    return Measured(value=median(found), low=found[0], high=found[-1])


DEATHS = Stage(
    name="deaths",
    minutes=10,
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
