"""Default runs with two leaves and a spine, with hot sets at the spine or at the servers' leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from foundation.protocol.leaf_spine import HotSetPlace
from tools.evidence.result import Table
from tools.evidence.stage import REAL_RUN, Stage
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import PROGRAM_FILES, run_step, summary_of_step
from tools.evidence.stages.run_changes import as_table, measured_changes
from tools.evidence.stages.runs import SEEDS

_PLACES: Mapping[HotSetPlace, str] = {"spine": "at the spine", "leaves": "at the servers' leaves"}
"""Value of the setting `hot_sets` -> name of its column."""


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
        "offload-leaf-spine-each-run": each_run(f"{quantity}, in each of six runs", each),
    }


LEAF_SPINE = Stage(
    name="leaf-spine",
    minutes=14,
    results=("offload-leaf-spine", "offload-leaf-spine-each-run"),
    steps=tuple(
        run_step(f"{place}-seed-{seed}", "TOPOLOGY=leaf-spine", f"HOT_SETS={place}", f"SEED={seed}")
        for seed in SEEDS
        for place in _PLACES
    ),
    tables=tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="two quiet cores and root",
)
