"""One point of a sweep: a simulated run, and what is kept of it. The same wherever it is done."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from analysis.figures.connections import concurrency_of
from analysis.figures.source import of_run
from analysis.record import RunRecord, SimulatedArm
from analysis.summary import Summary
from foundation.designs.registry import design as find_design
from foundation.settings import Strict
from simulator.aside import Made as Run
from simulator.aside import silent, simulated
from simulator.config import SimulationConfig
from simulator.contents import modules_of
from simulator.import_graph import ROOT, needed_by
from simulator.task_cache import CachedResult


class ArmResult(Strict):
    """One arm: its capacity, and its operations at the first of the loads."""

    capacity: float
    """Steps/s of all workers in a closed loop."""
    step_ms: float
    """Of a worker in that closed loop."""
    pull_mean: float | None
    """µs, as all that follow; None where nothing was measured."""
    pull_p99: float | None
    push_mean: float | None
    push_p99: float | None
    closed_push_p99: float
    """In the closed loop, where all workers begin at the same time."""
    rpcs_per_step: float
    ps_packets_per_step: float
    ps_cpu_us_per_step: float
    callers_p50: float
    """Workers that call one server within 1,000 µs ([DDL] Fig. 7b)."""
    callers_p99: float
    simulated: SimulatedArm


class Result(Strict):
    """A point's; nothing of it depends on the machine."""

    arms: dict[str, ArmResult]
    sent: int
    """Lanes."""
    lost: int
    mismatched_keys: int
    """Whose value is not what was sent."""
    rpcs: int
    packet_passes: int
    virtual_s: float


class Cost(Strict):
    """What it took on the machine that did it."""

    real_s: float
    loop_s: float


class Done(CachedResult):
    """A point's file: made of what, and what came out."""

    result: Result
    cost: Cost


def fingerprint(config: SimulationConfig) -> str:
    """A digest of design, settings, program and code: points with the same one have the same result."""
    settings = config.model_dump_json(exclude={"runs"})
    return hashlib.sha256(f"{digest(config.design)} {settings}".encode()).hexdigest()[:16]


@cache
def digest(design: str, root: Path = ROOT) -> str:
    """Of the compiled program, and of all modules that a run of the design is simulated by."""
    chosen = find_design(design)
    modules = needed_by([__name__, *modules_of(chosen)], root)
    made = hashlib.sha256((root / chosen.program.relative_to(ROOT)).read_bytes())
    for name, file in sorted(modules.items()):
        made.update(f"{name}\0".encode() + file.read_bytes())
    return made.hexdigest()


def do_point(text: str, scratch: str | None = None) -> str:
    """Simulate a configuration (JSON); returns a `Done` as JSON.

    Logs go to a folder in `scratch`, or where the machine has such things, and are removed.
    """
    config = SimulationConfig.model_validate_json(text)
    with simulated(config, None, silent(), scratch) as made:
        simulation = made.record.simulation
        assert simulation is not None
        done = Done(
            fingerprint=fingerprint(config),
            result=result_of(made),
            cost=Cost(real_s=simulation.real_s, loop_s=simulation.loop_s),
        )
    return done.model_dump_json(indent=2)


def result_of(made: Run) -> Result:
    """What is kept of a run."""
    run, record, summary = made
    assert record.simulation is not None
    pushes = _closed_pushes(run)
    callers = concurrency_of(of_run(run))
    return Result(
        arms={
            arm: _arm(arm, record, summary, pushes[arm], callers[(arm,)]) for arm in record.simulation.arms
        },
        sent=summary.updates.sent,
        lost=summary.updates.lost,
        mismatched_keys=summary.updates.mismatched_keys,
        rpcs=record.simulation.rpcs,
        packet_passes=record.simulation.packet_passes,
        virtual_s=record.simulation.virtual_s,
    )


def _arm(arm: str, record: RunRecord, summary: Summary, pushes: float, callers: Any) -> ArmResult:
    assert record.simulation is not None
    found = next(iter(summary.loads.values())).arms[arm]
    took = {op: found.op_latency_us[op] for op in ("pull", "push")}
    return ArmResult(
        capacity=record.capacity[arm],
        step_ms=1e3 * record.config["workers"] / record.capacity[arm],
        pull_mean=took["pull"].mean,
        pull_p99=took["pull"].p99,
        push_mean=took["push"].mean,
        push_p99=took["push"].p99,
        closed_push_p99=pushes,
        rpcs_per_step=found.rpcs_per_step,
        ps_packets_per_step=found.ps_packets_per_step,
        ps_cpu_us_per_step=1e6 * found.ps_cpu_s / found.steps,
        callers_p50=callers.quantile(0.5),
        callers_p99=callers.quantile(0.99),
        simulated=record.simulation.arms[arm],
    )


def _closed_pushes(run: Path) -> dict[str, float]:
    """Arm -> p99 of a push in the closed loop, µs."""
    rows = pl.read_parquet(run / "operations.parquet").filter(
        pl.col("round") < 0, pl.col("op").cast(pl.String) == "push"
    )
    return {
        str(arm[0]): float(np.quantile((of["end_us"] - of["start_us"]).to_numpy(), 0.99))
        for arm, of in rows.group_by(pl.col("arm").cast(pl.String))
    }
