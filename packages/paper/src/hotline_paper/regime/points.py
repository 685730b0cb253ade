"""Simulated clusters in the paper's regime and in the default one, with the quantities of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import polars as pl

from analysis.record import RunRecord
from experiment.run_config import config_of
from foundation.designs.hotset import BASELINE, OFFLOAD, OFFLOAD_PROXY, PROXY
from foundation.designs.interface import Design
from foundation.designs.registry import design as find_design
from foundation.settings import Strict
from hotline_paper.regime.model import CORES, ROWS_PER_STEP, WORKER_RPC_US, Parameters
from hotline_simulator.config import SimulationConfig
from hotline_simulator.experiment import quiet_reporter, temporary_run
from hotline_simulator.study import StudyPoint, scratch_folder

DIM, TOP_K = 16, 20_000
_RECEIVE_NS = 400
_RACK = 8  # workers that share a port of the switch
_MAX_PORTS = 256
_SHORT: Mapping[str, object] = {"rounds": 1, "block_steps": 1, "trace_steps": 14}
"""Only the closed loop is read, whose length does not depend on these."""
ALL_ARMS = tuple(arm.name for arm in (BASELINE, PROXY, OFFLOAD, OFFLOAD_PROXY))
TWO_ARMS = (BASELINE.name, OFFLOAD.name)
_WINDOW_US = 1_000
_PARTS = ("ps_proc_us", "ps_queue_us", "n_tx_us", "w_queue_us", "w_proc_us")


def settings_of(parameters: Parameters) -> dict[str, object]:
    """Return the settings of a simulation in which servers have these parameters."""
    core_us = float(parameters.serve_us)
    return {
        "dim": DIM,
        "top_k": TOP_K,
        "workload": {"keys_per_step": ROWS_PER_STEP},
        "worker": {"compute_ns": round(1e6 * float(parameters.compute_ms))},
        "network": {"delay_us": float(parameters.delay_us)},
        "hosts": {
            "wake_ns": 0, "idle_ns": 0, "take_ns": 0, "send_ns": 0, "lane_ns": 0, "value_ns": 0.0,
            "encode_ns": round(1e3 * WORKER_RPC_US) - _RECEIVE_NS, "receive_ns": _RECEIVE_NS,
            "serve_ns": round(1e3 * core_us / CORES),
            "latency_ns": round(1e3 * (core_us - core_us / CORES)),
            "connection_ns": round(float(parameters.connection_ns)),
            "contention": float(parameters.contention), "has_request_threads": True,
        },
    }  # fmt: skip


def cluster_config(
    settings: Mapping[str, object], workers: int, servers: int, arms: tuple[str, ...]
) -> SimulationConfig:
    """Return a cluster with these settings; beyond the ports of a switch, workers share them in racks."""
    network = settings.get("network", {})
    assert isinstance(network, Mapping)
    rack = _RACK if workers + servers > _MAX_PORTS else None
    sizes = {"workers": workers, "servers": servers, "arms": arms, "network": {**network, "rack": rack}}
    return config_of(SimulationConfig, {**_SHORT, **settings, **sizes})


class RegimeArm(Strict):
    """One arm in its closed loop, in which each worker begins a step as soon as it ends one."""

    steps_per_s: float  # of all workers together
    servers_busy: float  # share of time
    workers_busy: float
    pull_ms: float
    push_ms: float
    shares: dict[str, dict[str, float]]
    """Operation -> the paper's metric of an RPC -> its share in the mean latency."""
    request_bytes: dict[str, float]
    """Operation -> mean size of a request."""
    response_bytes: dict[str, float]
    rpc_p50_us: dict[str, float]
    rpc_p99_us: dict[str, float]
    interval_p50_us: float
    """Between two RPCs of a worker at a server."""
    interval_max_us: float
    callers: tuple[float, float, float]
    """Workers that call a server within 1,000 µs in the middle half of the time: p10, p50 and p90."""
    ps_proc_us_per_step: float
    arithmetic: float
    """Mean `PS_proc` of pushes minus that of pulls, as a share of the former (§3.2)."""


class RegimeResult(Strict):
    arms: dict[str, RegimeArm]
    lost: int  # lanes
    mismatched_keys: int


class RegimePoint(StudyPoint):
    result_class = RegimeResult
    regime: str
    label: str
    config: SimulationConfig

    @property
    def name(self) -> str:
        return f"{self.regime}/{self.label}"

    @property
    def design(self) -> Design:
        return find_design(self.config.design)

    def settings_json(self) -> str:
        return self.model_dump_json(exclude={"config": {"runs"}})

    def run(self) -> RegimeResult:
        with temporary_run(self.config, None, quiet_reporter(), scratch_folder()) as run:
            rpcs = _closed_loop(run.run / "rpc.parquet")
            operations = _closed_loop(run.run / "operations.parquet")
            return RegimeResult(
                arms={
                    arm: _measured_arm(
                        arm, run.record, rpcs.filter(arm=arm), operations.filter(arm=arm), self.config
                    )
                    for arm in self.config.arms
                },
                lost=run.summary.updates.lost,
                mismatched_keys=run.summary.updates.mismatched_keys,
            )


def _closed_loop(file: Path) -> pl.DataFrame:
    # Rounds have numbers from 0 on; the closed loop, which measures capacity, is before them.
    rows = pl.read_parquet(file).filter(pl.col("round") < 0)
    return rows.with_columns(pl.col("arm").cast(pl.String), pl.col("op").cast(pl.String))


def _measured_arm(
    arm: str, record: RunRecord, rpcs: pl.DataFrame, operations: pl.DataFrame, config: SimulationConfig
) -> RegimeArm:
    assert record.simulation is not None
    simulated, rate = record.simulation.arms[arm], record.capacity[arm]
    start, end = _number(operations["start_us"], "min"), _number(operations["end_us"], "max")
    steps = len(operations.filter(op="push"))
    # CPU time of a step times the rate: the loop begins and ends with workers that do not work.
    steady = 1e-6 * (end - start) * rate / steps
    by_op = {op: rpcs.filter(op=op) for op in ("pull", "push")}
    took_ms = operations.with_columns(took=(pl.col("end_us") - pl.col("start_us")) / 1e3)
    gaps = (
        rpcs.sort("worker", "ps", "t_send_us")
        .select(
            gap=pl.when(
                (pl.col("worker") == pl.col("worker").shift()) & (pl.col("ps") == pl.col("ps").shift())
            ).then(pl.col("t_send_us").diff())
        )["gap"]
        .drop_nulls()
    )
    middle = rpcs.filter(pl.col("t_send_us").is_between(start + (end - start) / 4, end - (end - start) / 4))
    callers = middle.group_by("ps", window=pl.col("t_send_us") // _WINDOW_US).agg(
        pl.col("worker").n_unique()
    )["worker"]
    pull, push = (_number(each["ps_proc_us"], "mean") for each in by_op.values())
    return RegimeArm(
        steps_per_s=rate,
        servers_busy=min(1.0, simulated.servers_busy * steady),
        workers_busy=min(1.0, simulated.workers_busy * steady),
        pull_ms=_number(took_ms.filter(op="pull")["took"], "mean"),
        push_ms=_number(took_ms.filter(op="push")["took"], "mean"),
        shares={op: _shares(rows) for op, rows in by_op.items()},
        request_bytes={op: _number(rows["request_bytes"], "mean") for op, rows in by_op.items()},
        response_bytes={op: _number(rows["response_bytes"], "mean") for op, rows in by_op.items()},
        rpc_p50_us={op: _quantile(rows["latency_us"], 0.5) for op, rows in by_op.items()},
        rpc_p99_us={op: _quantile(rows["latency_us"], 0.99) for op, rows in by_op.items()},
        interval_p50_us=_quantile(gaps, 0.5),
        interval_max_us=_number(gaps, "max"),
        callers=(_quantile(callers, 0.1), _quantile(callers, 0.5), _quantile(callers, 0.9)),
        ps_proc_us_per_step=_number(rpcs["ps_proc_us"], "sum") / steps,
        arithmetic=(push - pull) / push,
    )


def _shares(rows: pl.DataFrame) -> dict[str, float]:
    means = {part.removesuffix("_us"): _number(rows[part], "mean") for part in _PARTS}
    return {part: mean / sum(means.values()) for part, mean in means.items()}


def _number(column: pl.Series, statistic: Literal["mean", "min", "max", "sum"]) -> float:
    return float(getattr(column.cast(pl.Float64), statistic)())


def _quantile(column: pl.Series, q: float) -> float:
    value = column.cast(pl.Float64).quantile(q)
    assert value is not None
    return value
