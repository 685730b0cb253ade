"""Records of runs and of their blocks."""

from __future__ import annotations

from typing import Any

import polars as pl

from analysis.record import Block, RunRecord, ServerUse
from foundation.logs.columns import OPS
from tests.harness.arms import JOBS


def a_record(**changes: Any) -> RunRecord:
    """Return the record of a run on softswitch of which nothing else is known."""
    nothing: dict[str, Any] = {name: {} for name in ("config", "machine", "versions", "placement", "seeds")}
    return RunRecord(**{"target": "softswitch", "jobs": JOBS, **nothing, **changes})


def a_block(number: int, arm: str, load: float = 0.5, **changes: Any) -> Block:
    """Return the block of a round, with ten steps in which servers did nothing."""
    of: dict[str, Any] = {
        "first_step": 0, "steps": 10, "period_ns": 1, "loss": None, "max_lateness_ns": 0,
        "fell_behind": False, "servers": ServerUse(), "worker_cpu_s": 0.0, "run_queue_ms": {},
    }  # fmt: skip
    return Block(round=number, load=load, arm=arm, **{**of, **changes})


def operation_rows(
    arm: str, number: int, load: float, latency_us: float, measured: bool = True
) -> pl.DataFrame:
    """Return one row of each operation, with the columns that metrics are made of."""
    of = {"round": number, "load": load, "latency_us": latency_us, "rpcs": 1, "measured": measured}
    rows = [{"arm": arm, "op": op, **of} for op in OPS]
    return pl.DataFrame(rows, schema_overrides={"round": pl.Int32, "load": pl.Float32})
