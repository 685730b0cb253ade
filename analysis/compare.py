"""Compare several runs: each arm with the same arm of the first run, and with its own baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.metrics import differences, estimates
from analysis.record import AnalysisError, RunRecord, read_record, scan_log
from analysis.statistics import Comparison, Rounds, compare_unpaired
from foundation.logs.columns import has_load, load_name
from foundation.logs.update_log import reading

EstimatesByLoad = dict[str, dict[str, dict[str, Rounds]]]
"""Load -> arm -> metric -> one estimate per round."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    name: str
    offered_rate: dict[str, float]
    """Load -> steps/s; empty for a closed loop. Runs at different rates differ in utilisation, too."""
    changes: dict[str, dict[str, dict[str, Comparison]]]
    """Load -> arm -> metric -> change against the same arm of the first run; 0 for the first run."""
    differences: dict[str, dict[str, dict[str, Comparison]]]
    """Load -> arm -> metric -> difference to the baseline of the same run."""


def compare_runs(runs: Sequence[Path]) -> list[ComparedRun]:
    """Compare two or more runs at the loads that all of them have. Raises `AnalysisError`."""
    records = {run: read_record(run) for run in runs}
    estimates_by_run = {run: estimates_of_run(run, record) for run, record in records.items()}
    first_estimates = estimates_by_run[runs[0]]
    common_loads = [
        load for load in first_estimates if all(load in loads for loads in estimates_by_run.values())
    ]
    if not common_loads:
        loads_by_run = "; ".join(f"{run}: {', '.join(loads)}" for run, loads in estimates_by_run.items())
        raise AnalysisError(f"the runs have no load in common ({loads_by_run})")
    return [
        ComparedRun(
            name=run.resolve().name,
            offered_rate={
                load: rate for load, rate in records[run].offered_rate.items() if load in common_loads
            },
            changes={
                load: _changes_since_first_run(loads[load], first_estimates[load]) for load in common_loads
            },
            differences={load: differences(loads[load]) for load in common_loads},
        )
        for run, loads in estimates_by_run.items()
    ]


def estimates_of_run(run: Path, record: RunRecord) -> EstimatesByLoad:
    logs = [scan_log(run, log) for log in ("rpc", "operations")]
    estimates_by_load = {}
    for load in sorted({block.load for block in record.blocks}):
        with reading(run):
            rpc, operations = (rows.filter(has_load(load)).collect() for rows in logs)
        blocks = [block for block in record.blocks if block.load == load]
        metrics = estimates(rpc, operations, blocks)
        if metrics:
            estimates_by_load[load_name(load)] = metrics
    if not estimates_by_load:
        raise AnalysisError(f"{run}: no round is complete, so there is nothing to compare")
    return estimates_by_load


def _changes_since_first_run(
    other_estimates: dict[str, dict[str, Rounds]], first_estimates: dict[str, dict[str, Rounds]]
) -> dict[str, dict[str, Comparison]]:
    return {
        arm: {
            metric: compare_unpaired(values, first_estimates[arm][metric])
            for metric, values in metrics.items()
            if metric in first_estimates[arm]
        }
        for arm, metrics in other_estimates.items()
        if arm in first_estimates
    }
