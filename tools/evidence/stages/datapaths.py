"""Default runs with softswitch in the kernel and by packet sockets, in turn, and how well they agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import sqrt
from pathlib import Path

from analysis.metrics import CAPACITY
from analysis.statistics import Comparison
from analysis.summary import Summary
from tools.bench.agreement import WIDER
from tools.evidence.result import Cell, Row, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import PROGRAM_FILES
from tools.evidence.stages.run_changes import TITLES, Changes, as_table, measured_changes
from tools.evidence.stages.runs import SEEDS, run_steps, summaries_by_value

DATAPATHS = ("kernel", "sockets")


def tables(folder: Path) -> dict[str, Table]:
    summaries = summaries_by_value(folder, "DATAPATH", DATAPATHS)
    runs = {datapath: [*map(measured_changes, of_datapath)] for datapath, of_datapath in summaries.items()}
    return {
        "offload-by-datapath": as_table(
            "change by offload in a default run, measured", {f"{each}": runs[each] for each in DATAPATHS}
        ),
        "offload-each-run": _each_run(summaries),
        "offload-agreement": _agreement(runs),
    }


def _each_run(summaries: Mapping[str, Sequence[Summary]]) -> Table:
    runs = {
        f"{datapath}, run {number}": summary
        for datapath, of_datapath in summaries.items()
        for number, summary in enumerate(of_datapath, start=1)
    }
    table = each_run("change by offload in each of six default runs, measured", runs)
    return table.model_copy(
        update={"rows": (*table.rows, *_capacities(map(measured_changes, runs.values())))}
    )


def _capacities(runs: Iterable[Changes]) -> Iterator[Row]:
    """Yield the steps/s that the cluster carries, without offload and with it."""
    capacities = [changes[CAPACITY.name] for changes in runs]
    without, offloaded = ([getattr(each, name) for each in capacities] for name in ("reference", "value"))
    yield Row(names=("steps/s without offload",), cells=(*without,), form="{:,.0f}")
    yield Row(names=("steps/s with offload",), cells=(*offloaded,), form="{:,.0f}")


def _agreement(runs: Mapping[str, Sequence[Changes]]) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for datapath, of_datapath in runs.items():
        pairs = [
            (one[metric], other[metric])
            for one, other in combinations(of_datapath, 2)
            for metric in TITLES
            if metric in one and metric in other
        ]
        rows[datapath,] = [
            float(len(pairs)),
            *(float(sum(_agree(*pair, factor) for pair in pairs)) for factor in (1.0, WIDER)),
        ]
    return make_table(
        "pairs of default runs, each with the metrics of the other table",
        "number of pairs whose estimates lie within the bounds of each other's interval",
        ("datapath",),
        {
            "pairs of numbers": "{:,.0f}",
            "within each other's bounds": "{:,.0f}",
            f"within bounds × {sqrt(2):.2f}": "{:,.0f}",
        },
        rows,
    )


def _agree(one: Comparison, other: Comparison, factor: float) -> bool:
    return _is_within(one, other, factor) and _is_within(other, one, factor)


def _is_within(change: Comparison, other: Comparison, factor: float) -> bool:
    """Return whether a run's estimate is within the bounds of another run, moved away by a factor."""
    estimate, low, high = other.ratio, other.ratio_low, other.ratio_high
    if change.ratio is None or estimate is None or low is None or high is None:
        return False
    return estimate - factor * (estimate - low) <= change.ratio <= estimate + factor * (high - estimate)


DATAPATH_RUNS = Stage(
    name="datapaths",
    minutes=10,
    results=("offload-by-datapath", "offload-each-run", "offload-agreement"),
    steps=tuple(run_steps("DATAPATH", DATAPATHS)),
    tables=tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="two quiet cores and root",
)
