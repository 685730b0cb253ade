"""Latencies, CPU times and capacities of a run, real or simulated, for comparing predictions."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import NamedTuple

from analysis.metrics import PS_CPU, WORKER_CPU, block_metrics
from analysis.record import AnalysisError, RunRecord, read_record
from analysis.summary import LoadSummary, Summary, summarise_for_costs
from foundation.logs.columns import TRANSFERS, load_name

LATENCIES = ("pull_mean", "pull_p99", "push_mean", "push_p99")
"""Latencies of an operation, µs."""
CPU = ("worker_cpu", "ps_cpu")
"""CPU times of a step, of all workers or of all servers together, µs."""
LoadAndArm = tuple[str, str]


class Observation(NamedTuple):
    cells: dict[LoadAndArm, dict[str, float]]  # values of metrics
    signs: dict[tuple[LoadAndArm, str], int]  # 1 or -1 for a significant difference from the reference
    capacity: dict[str, float]  # steps/s, by arm


def read_observation(run: Path) -> Observation:
    """Return what was measured in the undisturbed blocks of a run."""
    return observe(*summarise_for_costs(run, read_record(run)))


def observe(record: RunRecord, summary: Summary) -> Observation:
    cells, signs = {}, {}
    for name, load in summary.loads.items():
        for arm in load.arms:
            if cell_values := _metrics_of_cell(name, arm, load, record):
                cells[name, arm] = cell_values
            for metric in ("pull_mean", "push_mean"):
                difference = load.differences.get(arm, {}).get(metric)
                if difference is not None and difference.sign:
                    signs[(name, arm), metric] = difference.sign
    if not cells:
        raise AnalysisError("expected a run with measured operations, got none")
    return Observation(cells, signs, _median_capacities(summary))


def _median_capacities(summary: Summary) -> dict[str, float]:
    measurements = summary.measured_capacities
    return {
        arm: median(capacities[arm] for capacities in measurements if arm in capacities)
        for arm in summary.capacity
    }


def _metrics_of_cell(name: str, arm: str, load: LoadSummary, record: RunRecord) -> dict[str, float] | None:
    latencies = load.arms[arm].op_latency_us
    blocks = [block for block in record.blocks if block.arm == arm and load_name(block.load) == name]
    latencies_us: dict[str, float | None] = {
        f"{op}_{statistic}": getattr(latencies[op], statistic)
        for op in TRANSFERS
        for statistic in ("mean", "p50", "p99")
    }
    if not load.arms[arm].steps or None in latencies_us.values():
        return None
    cpu_us = block_metrics(blocks, (WORKER_CPU, PS_CPU))
    cpu_by_name = dict(zip(CPU, cpu_us.values(), strict=True))
    return {**{metric: value for metric, value in latencies_us.items() if value is not None}, **cpu_by_name}
