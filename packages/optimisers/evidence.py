"""Optimisers at the servers: the trainings and the map of packages/optimisers/README.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from hosts.agent_config import CollectionSettings
from hotline_optimisers.numbers import OptimiserNumbers, TrainingCurve
from hotline_optimisers.offload import OffloadChanges
from hotline_optimisers.training import DataName
from tools.evidence.result import Cell, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output, modules_of
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import PROGRAM_FILES, run_step, summary_of_step
from tools.evidence.stages.run_changes import as_table, measured_changes
from tools.evidence.stages.runs import SEEDS

_WHEEL = "recbole==1.2.1"
_FILE = "recbole/dataset_example/ml-100k/ml-100k.inter"
_RATINGS = Step(
    "ratings",
    (
        "sh",
        "-c",
        f"{sys.executable} -m pip download -q --no-deps -d '{{folder}}' {_WHEEL} && "
        f"cd '{{folder}}' && {sys.executable} -m zipfile -e *.whl .",
    ),
    f"pip download --no-deps {_WHEEL} && unzip -j recbole-*.whl {_FILE}",
)
_STUDY = Step(
    "study",
    (
        "./hotline",
        "optimisers",
        "--json",
        "--ratings",
        f"{{folder}}/../{_RATINGS.name}/{_FILE}",
        "--into",
        "{folder}/study",
    ),
    "./hotline optimisers --ratings ml-100k.inter --json",
)
_DATA: dict[DataName, str] = {"clicks": "clicks", "ratings": "ratings", "dlrm": "DLRM"}
_WAYS = {
    "SGD, servers add": "SGD, added at servers",
    "SGD, the switch adds": "SGD, added in the switch",
    "Adagrad at servers": "Adagrad at servers",
    "Adagrad, collect 20 ms": "collect: 20 ms, half of the servers' time",
    "Adagrad, collect 200 ms": "collect: 200 ms, a tenth",
    "Adagrad, collect 1,000 ms": "collect: 1,000 ms, a twentieth",
}
"""Label of a curve -> name of its row."""


def tables(folder: Path) -> dict[str, Table]:
    numbers = OptimiserNumbers.model_validate(json_output(folder, _STUDY.name))
    return {
        "optimisers-loss": _loss(numbers),
        "optimisers-collecting": _by_hits(
            "change of the servers' CPU a step by collecting, against Adagrad at the servers, by the share "
            "of the updates that hit",
            numbers,
            lambda worth: worth.servers,
        ),
        "optimisers-capacity": _by_hits(
            "change of the steps/s that the cluster carries by collecting, against Adagrad at the servers, "
            "by the share of the updates that hit",
            numbers,
            lambda worth: worth.capacity,
        ),
    }


def _loss(numbers: OptimiserNumbers) -> Table:
    curves = {(each.data, each.label): each for each in numbers.curves}

    def cells(label: str) -> Iterator[Cell]:
        of_data = [curves[data, label] for data in _DATA]
        yield from (each.result.last_loss for each in of_data)
        yield from map(_age, of_data)

    return make_table(
        "log loss at the end of a simulated training, and median age at which published values were "
        "replaced, in mini-batches",
        "one training each, at the learning rate that was best of three on the other half of the data",
        ("",),
        {
            **{f"loss: {title}": "{:.3f}" for title in _DATA.values()},
            **{f"age: {title}": "{:,.0f}" for title in _DATA.values()},
        },
        {(name,): list(cells(label)) for label, name in _WAYS.items()},
    )


def _age(curve: TrainingCurve) -> float | None:
    ages = curve.result.ages
    return None if ages is None else ages.p50 * curve.result.steps_per_s / 1e3


def _by_hits(quantity: str, numbers: OptimiserNumbers, change_of: Callable[[OffloadChanges], float]) -> Table:
    changes = {(_budget(each.budget), each.hit_share): each.worth for each in numbers.points}
    shares = sorted({share for _, share in changes})
    return make_table(
        quantity,
        "one simulation each",
        ("staleness_ms, share_of_server",),
        {f"{100 * share:g} % hit": "{:+.0f} %" for share in shares},
        {
            (budget,): [100 * change_of(changes[budget, share]) for share in shares]
            for budget in dict.fromkeys(budget for budget, _ in changes)
        },
    )


def _budget(budget: CollectionSettings) -> str:
    return f"{budget.staleness_ms:,g}, {budget.share_of_server:g}"


OPTIMISERS = Stage(
    name="optimisers",
    minutes=12,
    results=("optimisers-loss", "optimisers-collecting", "optimisers-capacity"),
    steps=(_RATINGS, _STUDY),
    tables=tables,
    modules=(
        "hotline_optimisers.numbers",
        *modules_of("hotset", "none", "collect"),
    ),
    files=("p4src/**/*.json",),
    seeds=(1,),
    needs="a package index, for the ratings",
)


def run_tables(folder: Path) -> dict[str, Table]:
    summaries = {f"run {k}": summary_of_step(folder, f"seed-{seed}") for k, seed in enumerate(SEEDS, 1)}
    runs = [*map(measured_changes, summaries.values())]
    quantity = "change by collecting in a default run with Adagrad, against Adagrad at the servers"
    heading = "change by collecting"
    return {
        "optimisers-runs": as_table(quantity, {"measured": runs}, heading),
        "optimisers-each-run": each_run(f"{quantity}, in each of three runs", summaries, heading),
    }


OPTIMISER_RUNS = Stage(
    name="optimiser-runs",
    minutes=8,
    results=("optimisers-runs", "optimisers-each-run"),
    steps=tuple(run_step(f"seed-{seed}", "OPTIMISER=adagrad", f"SEED={seed}") for seed in SEEDS),
    tables=run_tables,
    modules=(*REAL_RUN, *modules_of("collect")),
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="two quiet cores and root",
)
STAGES = (OPTIMISERS, OPTIMISER_RUNS)
