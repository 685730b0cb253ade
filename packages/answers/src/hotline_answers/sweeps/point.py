from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from analysis.figures.connections import concurrency_of
from analysis.figures.distribution import Distribution
from analysis.figures.figure_data import source_of_run
from analysis.record import RunRecord, SimulatedArm
from analysis.summary import Summary
from foundation.designs.interface import Design
from foundation.designs.registry import design as find_design
from foundation.settings import Strict
from hotline_simulator.config import SimulationConfig
from hotline_simulator.experiment import TemporaryRun, quiet_reporter, temporary_run
from hotline_simulator.study import StudyPoint, scratch_folder


class SweptArm(Strict):
    capacity: float  # steps/s of all workers together
    step_ms: float  # mean duration of a worker's step at capacity
    pull_mean: float | None
    """Latency in µs, like the next three fields; None if nothing was measured."""
    pull_p99: float | None
    push_mean: float | None
    push_p99: float | None
    closed_push_p99: float
    """p99 of a push in the closed loop, in which all workers begin at the same time, µs."""
    rpcs_per_step: float
    ps_packets_per_step: float
    ps_cpu_us_per_step: float
    callers_p50: float
    """Workers that call one server within 1,000 µs (Pan et al. Fig. 7b)."""
    callers_p99: float
    simulated: SimulatedArm


class SweepPointResult(Strict):
    arms: dict[str, SweptArm]
    sent: int  # lanes of pushes
    lost: int  # lanes
    mismatched_keys: int
    rpcs: int
    packet_passes: int  # number of frames that the program has processed
    virtual_s: float


class PointCost(Strict):
    real_s: float  # time of the whole run
    loop_s: float  # time in the compiled event loop


class SweptRun(Strict):
    result: SweepPointResult
    cost: PointCost


class SweepPoint(StudyPoint):
    result_class = SweptRun
    sweep: str
    label: str
    x: float
    config: SimulationConfig

    @property
    def name(self) -> str:
        return f"{self.sweep}/{self.label}"

    @property
    def title(self) -> str:
        return f"{self.sweep} {self.label}"

    @property
    def design(self) -> Design:
        return find_design(self.config.design)

    def settings_json(self) -> str:
        return self.model_dump_json(exclude={"config": {"runs"}})

    def run(self) -> SweptRun:
        with temporary_run(self.config, None, quiet_reporter(), scratch_folder()) as run:
            simulation = run.record.simulation
            assert simulation is not None
            return SweptRun(
                result=summarize_run(run),
                cost=PointCost(real_s=simulation.real_s, loop_s=simulation.loop_s),
            )


def summarize_run(run: TemporaryRun) -> SweepPointResult:
    folder, record, summary = run
    assert record.simulation is not None
    push_p99s = _closed_push_p99(folder)
    callers = concurrency_of(source_of_run(folder))
    return SweepPointResult(
        arms={
            arm: _swept_arm(arm, record, summary, push_p99s[arm], callers[(arm,)])
            for arm in record.simulation.arms
        },
        sent=summary.updates.sent,
        lost=summary.updates.lost,
        mismatched_keys=summary.updates.mismatched_keys,
        rpcs=record.simulation.rpcs,
        packet_passes=record.simulation.packet_passes,
        virtual_s=record.simulation.virtual_s,
    )


def _swept_arm(
    arm: str, record: RunRecord, summary: Summary, closed_push_p99: float, callers: Distribution
) -> SweptArm:
    assert record.simulation is not None
    first_load = next(iter(summary.loads.values()))
    arm_summary = first_load.arms[arm]
    latencies = {op: arm_summary.op_latency_us[op] for op in ("pull", "push")}
    return SweptArm(
        capacity=record.capacity[arm],
        step_ms=1e3 * record.config["workers"] / record.capacity[arm],
        pull_mean=latencies["pull"].mean,
        pull_p99=latencies["pull"].p99,
        push_mean=latencies["push"].mean,
        push_p99=latencies["push"].p99,
        closed_push_p99=closed_push_p99,
        rpcs_per_step=arm_summary.rpcs_per_step,
        ps_packets_per_step=arm_summary.ps_packets_per_step,
        ps_cpu_us_per_step=1e6 * arm_summary.ps_cpu_s / arm_summary.steps,
        callers_p50=callers.quantile(0.5),
        callers_p99=callers.quantile(0.99),
        simulated=record.simulation.arms[arm],
    )


def _closed_push_p99(folder: Path) -> dict[str, float]:
    # Rounds have numbers from 0 on; the closed loop, which measures capacity, is before them.
    rows = pl.read_parquet(folder / "operations.parquet").filter(
        pl.col("round") < 0, pl.col("op").cast(pl.String) == "push"
    )
    return {
        str(arm[0]): float(np.quantile((operations["end_us"] - operations["start_us"]).to_numpy(), 0.99))
        for arm, operations in rows.group_by(pl.col("arm").cast(pl.String))
    }
