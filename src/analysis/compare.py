"""Compare runs, each arm with the same arm of the first run, or single arms of any runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    registers: dict[str, int]
    """`analysis.record.RunRecord.registers`, of all arms of the run together."""


@dataclass(frozen=True, slots=True)
class ComparedArm:
    name: str
    """Name of the run's folder, a colon, and the name of the arm."""
    offered_rate: dict[str, float]
    changes: dict[str, dict[str, Comparison]]
    """Load -> metric -> change against the first arm; 0 for the first arm."""
    registers: dict[str, int]
    """`analysis.record.RunRecord.registers`, of all arms of the run together."""


def compare_arms(selection: Sequence[tuple[Path, str]]) -> list[ComparedArm]:
    """Compare arms, each of a run, at the loads that all of them have; their designs may differ.

    Raises `AnalysisError`, and names the arms of a run that lacks the selected one.
    """
    records = {run: read_record(run) for run, _ in selection}
    estimates_by_run = {run: estimates_of_run(run, record) for run, record in records.items()}
    for run, arm in selection:
        arms = {name for by_arm in estimates_by_run[run].values() for name in by_arm}
        if arm not in arms:
            raise AnalysisError(f"{run}:{arm}: expected an arm of the run ({', '.join(sorted(arms))})")
    first_run, first_arm = selection[0]
    loads = [load for load in estimates_by_run[first_run] if _all_have(load, selection, estimates_by_run)]
    if not loads:
        first_loads = ", ".join(estimates_by_run[first_run])
        raise AnalysisError(f"expected a load of {first_run} ({first_loads}) that all arms have, got none")
    return [
        ComparedArm(
            name=f"{run.resolve().name}:{arm}",
            offered_rate={load: rate for load, rate in records[run].offered_rate.items() if load in loads},
            changes={
                load: _changes_of_arm(
                    estimates_by_run[run][load][arm], estimates_by_run[first_run][load][first_arm]
                )
                for load in loads
            },
            registers=records[run].registers,
        )
        for run, arm in selection
    ]


def _all_have(
    load: str, selection: Sequence[tuple[Path, str]], estimates_by_run: Mapping[Path, EstimatesByLoad]
) -> bool:
    return all(arm in estimates_by_run[run].get(load, {}) for run, arm in selection)


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
            registers=records[run].registers,
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
        arm: _changes_of_arm(metrics, first_estimates[arm])
        for arm, metrics in other_estimates.items()
        if arm in first_estimates
    }


def _changes_of_arm(
    other_metrics: Mapping[str, Rounds], first_metrics: Mapping[str, Rounds]
) -> dict[str, Comparison]:
    return {
        metric: compare_unpaired(values, first_metrics[metric])
        for metric, values in other_metrics.items()
        if metric in first_metrics
    }
