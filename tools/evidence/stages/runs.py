"""Default runs: with rows of 1, 16, 64 and 128 values in the same memory of the switch, and on BMv2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from analysis.dedicated_switch import predict
from analysis.forest import forest
from analysis.metrics import CAPACITY
from analysis.statistics import comparison_of_ratio
from analysis.summary import Summary
from foundation.designs.hotset import PROXY
from tools.evidence.result import Cell, EvidenceError, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import PROGRAM_FILES, run_step, summary_of_step
from tools.evidence.stages.run_changes import Changes, as_table, measured_changes

DIMS = (1, 16, 64, 128)
SEEDS = (41, 42, 43)
T = TypeVar("T")


def run_steps(variable: str, values: Iterable[object]) -> Iterator[Step]:
    """Yield a run for each seed and value of a variable; runs of a seed follow one another."""
    for seed in SEEDS:
        for value in values:
            yield run_step(_name(variable, value, seed), f"{variable}={value}", f"SEED={seed}")


def summaries_by_value(folder: Path, variable: str, values: Iterable[T]) -> dict[T, list[Summary]]:
    """Return the summaries of the runs of `run_steps`, those of each value in the order of seeds."""
    return {
        value: [summary_of_step(folder, _name(variable, value, seed)) for seed in SEEDS] for value in values
    }


def _name(variable: str, value: object, seed: int) -> str:
    return f"{variable.lower()}-{value}-seed-{seed}"


def tables(folder: Path) -> dict[str, Table]:
    summaries = summaries_by_value(folder, "DIM", DIMS)
    scalars = summaries[1]
    return {
        "offload": compare_with_simulations("change by offload in a default run", scalars),
        "proxy": as_table(
            "change by the proxy in a default run",
            {"measured": [*map(proxy_changes, scalars)]},
            "change by the proxy",
        ),
        "offload-by-dim": as_table(
            "change by offload in a run with rows of several values, measured",
            {f"{dim} values": [*map(measured_changes, summaries[dim])] for dim in DIMS[1:]},
        ),
        "offload-by-dim-model": as_table(
            "change by offload in a run with rows of several values, simulated for the same machine",
            {f"{dim} values": [*map(changes_with_shared_cores, summaries[dim])] for dim in DIMS[1:]},
        ),
        "offload-by-dim-simulated": as_table(
            "change by offload in a run with rows of several values, simulated with a dedicated switch",
            {f"{dim} values": [*map(simulated_changes, summaries[dim])] for dim in DIMS[1:]},
        ),
        "offload-counts": _counts(summaries),
        "offload-each-run-by-dim": each_run(
            "change by offload in each of twelve runs with rows of 1, 16, 64 and 128 values",
            {
                f"dim {dim}, run {number}": summary
                for dim, of_dim in summaries.items()
                for number, summary in enumerate(of_dim, start=1)
            },
        ),
    }


def _counts(summaries: Mapping[int, Sequence[Summary]]) -> Table:
    def cells(runs: Sequence[Summary]) -> list[Cell]:
        updates = [run.updates for run in runs]
        return [
            sum(each.sent for each in updates),
            sum(each.lost for each in updates),
            sum(each.mismatched_keys for each in updates),
        ]

    counted: dict[tuple[str, ...], list[Cell]] = {(f"{dim}",): cells(runs) for dim, runs in summaries.items()}
    counted["all",] = cells([run for runs in summaries.values() for run in runs])
    return make_table(
        "updates of rows that workers pushed in default runs, lost ones, and keys whose sum differs",
        "sums over three runs of each number of values a row",
        ("values a row",),
        dict.fromkeys(("rows pushed", "rows lost", "keys that differ"), "{:,.0f}"),
        counted,
    )


def proxy_changes(summary: Summary) -> Changes:
    """Return what was measured of the proxy at half load, claimed or not."""
    return next(iter(summary.loads.values())).differences[PROXY.name]


def changes_with_shared_cores(summary: Summary) -> Changes:
    """Return what the simulation says of the run's machine, to compare with what was measured."""
    virtual, lead = summary.virtual, summary.lead
    if virtual is None or lead is None or lead.reference is None:
        raise EvidenceError("expected a run with a simulation of its steps")
    capacity = virtual.shared_capacity
    if not (capacity.get(lead.name) and capacity.get(lead.reference)):
        return virtual.shared
    ratio = capacity[lead.name] / capacity[lead.reference]
    return {**virtual.shared, CAPACITY.name: comparison_of_ratio(capacity[lead.reference], ratio, None, None)}


def simulated_changes(summary: Summary) -> Changes:
    if (predicted := predict(summary)) is None:
        raise EvidenceError("expected a run with a simulation of its steps with a dedicated switch")
    changes = {name: claim.change for name, claim in predicted.claims.items()}
    [capacity] = [row.dedicated for row in forest(summary, predicted) if row.title == CAPACITY.label] or [
        None
    ]
    return (
        changes
        if capacity is None or capacity.change is None
        else {**changes, CAPACITY.name: capacity.change}
    )


def compare_with_simulations(quantity: str, runs: Sequence[Summary]) -> Table:
    """Return what was measured in runs beside the simulations of these runs."""
    columns = {
        "measured": measured_changes,
        "simulated for the same machine": changes_with_shared_cores,
        "simulated with a dedicated switch": simulated_changes,
    }
    return as_table(quantity, {name: [*map(changes_of, runs)] for name, changes_of in columns.items()})


RUNS = Stage(
    name="runs",
    minutes=35,
    results=(
        "offload", "proxy", "offload-by-dim", "offload-by-dim-model", "offload-by-dim-simulated",
        "offload-counts", "offload-each-run-by-dim",
    ),
    steps=tuple(run_steps("DIM", DIMS)),
    tables=tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="two quiet cores and root",
)  # fmt: skip


def separate_tables(folder: Path) -> dict[str, Table]:
    runs = [summary_of_step(folder, f"seed-{seed}") for seed in SEEDS]
    if not all(run.has_separate_cpus for run in runs):
        raise EvidenceError(
            "expected a CPU for each worker and server, the switch and everything else, which are 8 in a "
            "default run, got a run on fewer"
        )
    quantity = "change by offload in a default run with a CPU for each worker, each server and the switch"
    return {"offload-separate-cores": compare_with_simulations(quantity, runs)}


SEPARATE_CORES = Stage(
    name="separate-cores",
    minutes=8,
    results=("offload-separate-cores",),
    steps=tuple(run_step(f"seed-{seed}", f"SEED={seed}") for seed in SEEDS),
    tables=separate_tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="a quiet machine of 8 cores or more, and root",
)


def bmv2_tables(folder: Path) -> dict[str, Table]:
    runs = [summary_of_step(folder, f"seed-{seed}") for seed in SEEDS]
    table = as_table(
        "change by offload in a default run on BMv2", {"measured": [*map(measured_changes, runs)]}
    )
    return {"offload-bmv2": table}


BMV2_RUNS = Stage(
    name="bmv2",
    minutes=8,
    results=("offload-bmv2",),
    steps=tuple(run_step(f"seed-{seed}", "TARGET=bmv2", f"SEED={seed}") for seed in SEEDS),
    tables=bmv2_tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=SEEDS,
    needs="BMv2, two quiet cores and root",
)
