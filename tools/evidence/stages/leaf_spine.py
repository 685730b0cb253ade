"""Default runs with two leaves and a spine, by the place of hot sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.summary import Summary
from foundation.designs.arms import baseline_and_lead
from foundation.designs.collect import COLLECT
from foundation.protocol.leaf_spine import HotSetPlace
from tools.evidence.result import Cell, Measured, Row, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import PROGRAM_FILES, run_step, summary_of_step
from tools.evidence.stages.run_changes import as_table, measured_changes
from tools.evidence.stages.runs import SEEDS

_PLACES: Mapping[HotSetPlace, str] = {
    "spine": "at the spine",
    "leaves": "at the servers' leaves",
    "both": "at both levels",
    "worker-leaves": "at the workers' leaves",
}
"""Value of the setting `hot_sets` -> name of its column."""
_SUMS: HotSetPlace = "worker-leaves"
CABLE_MBIT, OVERSUBSCRIPTION = 100, 4
"""The bandwidth of a cable and the oversubscription in runs with narrow uplinks."""


def tables(folder: Path) -> dict[str, Table]:
    runs = {
        title: [summary_of_step(folder, f"{place}-seed-{seed}") for seed in SEEDS]
        for place, title in _PLACES.items()
    }
    columns = {title: [*map(measured_changes, summaries)] for title, summaries in runs.items()}
    each = {
        f"{title}, run {number}": summary
        for title, summaries in runs.items()
        for number, summary in enumerate(summaries, 1)
    }
    quantity = "change by offload in a default run with two leaves and a spine, measured"
    return {
        "offload-leaf-spine": as_table(quantity, columns),
        "offload-leaf-spine-each-run": each_run(f"{quantity}, in each of twelve runs", each),
        "copies-leaf-spine": _copies(runs[_PLACES[_SUMS]]),
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


def narrow_tables(folder: Path) -> dict[str, Table]:
    quantity = (
        f"change by offload in a run with two leaves and a spine, cables of {CABLE_MBIT} Mbit/s and an "
        f"oversubscription of {OVERSUBSCRIPTION}, measured"
    )
    runs = {title: summary_of_step(folder, place) for place, title in _PLACES.items()}
    table = each_run(quantity, runs)
    # Without offload, too, packets pass the home of their server, so the networks differ in what they carry.
    return {"offload-leaf-spine-narrow": table.model_copy(update={"rows": table.rows + _capacities(runs)})}


def _capacities(runs: Mapping[str, Summary]) -> tuple[Row, ...]:
    arms = {title: baseline_and_lead(summary.reference.design) for title, summary in runs.items()}
    return tuple(
        Row(
            names=(name,),
            cells=tuple(runs[title].capacity[of_run[k].name] for title, of_run in arms.items()),
            form="{:,.0f}",
        )
        for k, name in enumerate(("steps/s without offload", "steps/s with it"))
    )


def _run_at(place: HotSetPlace, name: str, *variables: str) -> Step:
    design = [f"DESIGN={COLLECT.design}"] if place == _SUMS else []
    return run_step(name, "TOPOLOGY=leaf-spine", f"HOT_SETS={place}", *design, *variables)


LEAF_SPINE = Stage(
    name="leaf-spine",
    minutes=18,
    results=("offload-leaf-spine", "offload-leaf-spine-each-run", "copies-leaf-spine"),
    steps=tuple(
        _run_at(place, f"{place}-seed-{seed}", f"SEED={seed}") for seed in SEEDS for place in _PLACES
    ),
    tables=tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="two quiet cores and root",
)
NARROW_LEAF_SPINE = replace(
    LEAF_SPINE,
    name="leaf-spine-narrow",
    minutes=7,
    results=("offload-leaf-spine-narrow",),
    steps=tuple(
        _run_at(
            place,
            place,
            f"CABLE_MBIT={CABLE_MBIT}",
            f"OVERSUBSCRIPTION={OVERSUBSCRIPTION}",
            f"SEED={SEEDS[0]}",
        )
        for place in _PLACES
    ),
    tables=narrow_tables,
    seeds=SEEDS[:1],
)
