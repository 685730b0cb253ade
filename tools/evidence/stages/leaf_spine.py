"""Default runs with two leaves and a spine, by the place of hot sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.summary import Summary
from foundation.designs.collect import COLLECT
from foundation.protocol.leaf_spine import HotSetPlace
from tools.evidence.result import Cell, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import PROGRAM_FILES, run_step, summary_of_step
from tools.evidence.stages.run_changes import as_table, measured_changes
from tools.evidence.stages.runs import SEEDS

_PLACES: Mapping[HotSetPlace, str] = {
    "spine": "at the spine",
    "leaves": "at the servers' leaves",
    "worker-leaves": "at the workers' leaves",
}
"""Value of the setting `hot_sets` -> name of its column."""
_LEVELS: Mapping[HotSetPlace, str] = {"both": "at both levels"}
"""Likewise, of the runs that are measured by themselves."""
_SUMS: HotSetPlace = "worker-leaves"


def tables(folder: Path) -> dict[str, Table]:
    runs = _runs(folder, _PLACES)
    return {
        **_changes("offload-leaf-spine", runs, "nine"),
        "copies-leaf-spine": _copies(runs[_PLACES[_SUMS]]),
    }


def level_tables(folder: Path) -> dict[str, Table]:
    return _changes("offload-both-levels", _runs(folder, _LEVELS), "three")


def _runs(folder: Path, places: Mapping[HotSetPlace, str]) -> dict[str, list[Summary]]:
    """Return the runs of each place, by the name of its column."""
    return {
        title: [summary_of_step(folder, f"{place}-seed-{seed}") for seed in SEEDS]
        for place, title in places.items()
    }


def _changes(name: str, runs: Mapping[str, Sequence[Summary]], number_of_runs: str) -> dict[str, Table]:
    columns = {title: [*map(measured_changes, summaries)] for title, summaries in runs.items()}
    each = {
        f"{title}, run {number}": summary
        for title, summaries in runs.items()
        for number, summary in enumerate(summaries, 1)
    }
    quantity = "change by offload in a default run with two leaves and a spine, measured"
    return {
        name: as_table(quantity, columns),
        f"{name}-each-run": each_run(f"{quantity}, in each of {number_of_runs} runs", each),
    }


def _copies(summaries: Sequence[Summary]) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for number, summary in enumerate(summaries, 1):
        ages, loss = summary.staleness, summary.learning[COLLECT.name]
        assert ages is not None and loss.ratio is not None
        assert loss.ratio_low is not None and loss.ratio_high is not None
        interval = Measured(value=100 * loss.ratio, low=100 * loss.ratio_low, high=100 * loss.ratio_high)
        rows[f"run {number}",] = [ages.p50_ms, ages.p99_ms, 100 * ages.late / ages.copies, interval]
    return make_table(
        "ages of copies at the workers' leaves when newer ones replace them, and the change in the model's "
        "log loss, in default runs with two leaves and a spine",
        "one run each; the loss with its interval (docs/intervals.md)",
        ("",),
        {
            "median age, ms": "{:.0f}",
            "99 % are younger than, ms": "{:.0f}",
            "older than the bound, %": "{:.0f}",
            "change in loss": "{:+.2f} %",
        },
        rows,
    )


def _variables(place: HotSetPlace) -> list[str]:
    return [f"HOT_SETS={place}", *([f"DESIGN={COLLECT.design}"] if place == _SUMS else [])]


def _steps(places: Mapping[HotSetPlace, str]) -> tuple[Step, ...]:
    return tuple(
        run_step(f"{place}-seed-{seed}", "TOPOLOGY=leaf-spine", *_variables(place), f"SEED={seed}")
        for seed in SEEDS
        for place in places
    )


LEAF_SPINE = Stage(
    name="leaf-spine",
    minutes=21,
    results=("offload-leaf-spine", "offload-leaf-spine-each-run", "copies-leaf-spine"),
    steps=_steps(_PLACES),
    tables=tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="two quiet cores and root",
)
BOTH_LEVELS = replace(
    LEAF_SPINE,
    name="leaf-spine-levels",
    minutes=8,
    results=("offload-both-levels", "offload-both-levels-each-run"),
    steps=_steps(_LEVELS),
    tables=level_tables,
)
