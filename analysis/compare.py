"""Several runs beside each other: what each arm took in each of them, and how offload did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.errors import AnalysisError
from analysis.metrics import differences, estimates
from analysis.record import RunRecord, read_record
from analysis.statistics import Comparison, Rounds, compare_unpaired
from foundation.logs.columns import load_name

Loads = dict[str, dict[str, dict[str, Rounds]]]
"""Load -> arm -> metric -> one estimate a round."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run as it is compared."""

    name: str
    offered_rate: dict[str, float]
    """Load -> steps/s, but for a closed loop. Where these differ, so may all that depends on how busy the
    machine was."""
    changes: dict[str, dict[str, dict[str, Comparison]]]
    """Load -> arm -> metric -> its change to the same arm of the first run; the first run's own are 0."""
    differences: dict[str, dict[str, dict[str, Comparison]]]
    """Load -> arm -> metric -> its difference to the baseline, within the run."""


def compare_runs(runs: Sequence[Path]) -> list[ComparedRun]:
    """Of two or more runs, at the loads that all of them have. Raises `AnalysisError`."""
    records = {run: read_record(run) for run in runs}
    found = {run: rounds_of(run, record) for run, record in records.items()}
    common = [load for load in found[runs[0]] if all(load in loads for loads in found.values())]
    if not common:
        told = "; ".join(f"{run}: {', '.join(loads)}" for run, loads in found.items())
        raise AnalysisError(f"the runs have no load in common ({told})")
    first = found[runs[0]]
    return [
        ComparedRun(
            run.resolve().name,
            {load: rate for load, rate in records[run].offered_rate.items() if load in common},
            {load: _changes(loads[load], first[load]) for load in common},
            {load: differences(loads[load]) for load in common},
        )
        for run, loads in found.items()
    ]


def rounds_of(run: Path, record: RunRecord) -> Loads:
    """All estimates of a run; raises `AnalysisError` where it has no complete round."""
    files = {log: run / f"{log}.parquet" for log in ("rpc", "operations")}
    for file in files.values():
        if not file.exists():
            raise AnalysisError(f"{run}: has no {file.name}; a finished run has one")
    rows = {log: pl.scan_parquet(file).filter(pl.col("round") >= 0) for log, file in files.items()}
    found = {}
    for load in sorted({block.load for block in record.blocks}):
        at_load = pl.col("load").cast(pl.Float64).round(6) == round(load, 6)
        of_load = {log: frame.filter(at_load).collect() for log, frame in rows.items()}
        blocks = [block for block in record.blocks if block.load == load]
        metrics = estimates(of_load["rpc"], of_load["operations"], blocks)
        if metrics:
            found[load_name(load)] = metrics
    if not found:
        raise AnalysisError(f"{run}: no round is complete, so there is nothing to compare")
    return found


def _changes(
    other: dict[str, dict[str, Rounds]], first: dict[str, dict[str, Rounds]]
) -> dict[str, dict[str, Comparison]]:
    return {
        arm: {
            metric: compare_unpaired(values, first[arm][metric])
            for metric, values in metrics.items()
            if metric in first[arm]
        }
        for arm, metrics in other.items()
        if arm in first
    }
