"""Default runs on this machine, with rows of 1, 16, 64 and 128 values in the same memory of the switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

from analysis.claims import answer
from analysis.dedicated_switch import predict
from analysis.forest import CAPACITY, forest
from analysis.metrics import PS_CPU, PS_PACKETS, RPCS, WORKER_CPU
from analysis.statistics import Comparison, comparison_of_ratio
from analysis.summary import Summary, read_summary
from foundation.designs.hotset import PROXY
from tools.evidence.result import Cell, Column, EvidenceError, Measured, Row, Table
from tools.evidence.stage import REAL_RUN, Stage, Step

DIMS = (1, 16, 64, 128)
SEEDS = (41, 42, 43)
STATISTIC = (
    "mean of three runs, and the lowest and highest bound of their intervals: of the look at which a run "
    "ended (docs/intervals.md), and with a dedicated switch with the model's error in that run; of capacity "
    "measured, the lowest and highest of a run's two"
)
_TITLES = {
    PS_PACKETS.name: "packets to the servers",
    "ps_bytes_per_step": "bytes to the servers",
    PS_CPU.name: "the servers' CPU",
    RPCS.name: "the workers' RPCs",
    WORKER_CPU.name: "the workers' CPU",
    "pull_mean": "time of a pull",
    "push_mean": "time of a push",
    CAPACITY.name: "steps/s that the cluster carries",
}
_CHANGE = "{:+.1f} %"

Changes = Mapping[str, Comparison]
"""Metric -> the change in one run."""


def _steps() -> Iterator[Step]:
    for seed in SEEDS:
        for dim in DIMS:
            words = ("run", f"DIM={dim}", f"SEED={seed}")
            command = ("./hotline", *words, "CONFIG={folder}/run.toml")
            shown = f"make run-topo {' '.join(words[1:])}"
            yield Step(
                f"dim-{dim}-seed-{seed}", command, shown, files=(("run.toml", 'runs = "{folder}/runs"\n'),)
            )


def tables(folder: Path) -> dict[str, Table]:
    summaries = {
        dim: [read_summary(folder / f"dim-{dim}-seed-{seed}" / "runs" / "latest") for seed in SEEDS]
        for dim in DIMS
    }
    scalars = summaries[1]
    return {
        "offload": as_table(
            "change by offload in a default run",
            {
                "measured": [*map(measured_changes, scalars)],
                "simulated for the same machine": [*map(changes_with_shared_cores, scalars)],
                "simulated with a dedicated switch": [*map(simulated_changes, scalars)],
            },
        ),
        "proxy": as_table(
            "change by the proxy in a default run",
            {"measured": [*map(proxy_changes, scalars)]},
            "change by the proxy",
        ),
        "offload-by-dim": as_table(
            "change by offload in a run with rows of several values, measured",
            {f"{dim} values": [*map(measured_changes, summaries[dim])] for dim in DIMS[1:]},
        ),
        "offload-by-dim-simulated": as_table(
            "change by offload in a run with rows of several values, simulated with a dedicated switch",
            {f"{dim} values": [*map(simulated_changes, summaries[dim])] for dim in DIMS[1:]},
        ),
    }


def measured_changes(summary: Summary) -> Changes:
    changes = {name: claim.change for name, claim in answer(summary).claims.items()}
    [capacity] = [row.measured.change for row in forest(summary, None) if row.title == CAPACITY.label] or [
        None
    ]
    return changes if capacity is None else {**changes, CAPACITY.name: capacity}


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


def as_table(
    quantity: str, runs_by_column: Mapping[str, Sequence[Changes]], heading: str = "change by offload"
) -> Table:
    known = {name for runs in runs_by_column.values() for changes in runs for name in changes}
    rows = [
        Row(
            names=(title,),
            cells=tuple(_cell([run.get(name) for run in runs]) for runs in runs_by_column.values()),
        )
        for name, title in _TITLES.items()
        if name in known
    ]
    columns = tuple(Column(name=name, form=_CHANGE) for name in runs_by_column)
    return Table(
        quantity=quantity, statistic=STATISTIC, headings=(heading,), columns=columns, rows=tuple(rows)
    )


def _cell(changes: Sequence[Comparison | None]) -> Cell:
    """Return the mean change in per cent, with the span of the intervals; None if some run has none."""
    known = [change for change in changes if change is not None and change.ratio is not None]
    ratios = [change.ratio for change in known if change.ratio is not None]
    if len(known) < len(changes):
        return None
    bounds = [
        bound for change in known for bound in (change.ratio_low, change.ratio_high) if bound is not None
    ]
    value = 100 * mean(ratios)
    if not bounds:
        return value
    return Measured(value=value, low=100 * min(bounds), high=100 * max(bounds))


RUNS = Stage(
    name="runs",
    minutes=35,
    results=("offload", "proxy", "offload-by-dim", "offload-by-dim-simulated"),
    steps=tuple(_steps()),
    tables=tables,
    modules=REAL_RUN,
    files=("p4src/**/*.p4", "p4src/**/*.json"),
    seeds=SEEDS,
    needs="two quiet cores and root",
)
