"""A run folder with logs of known content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from analysis.record import Accounting, Block, RunRecord, ServerUse
from analysis.report import write_report
from analysis.summary import Summary, summarise
from foundation.designs.arms import arm as arm_of
from foundation.logs.columns import OPERATIONS, RPC
from tests.harness.arms import MEASURED
from tests.harness.records import a_block, a_record

ROUNDS = 6
LOADS = (0.5, 0.8)
STEPS = 10
"""Measured steps of a block; as many again are discarded."""
PULL_US = {"baseline": 1000.0, "repeat": 1000.0, "proxy": 1000.0, "offload": 600.0, "offload-proxy": 600.0}
SERVED = {"baseline": 0, "repeat": 0, "proxy": 0, "offload": 16, "offload-proxy": 16}


@dataclass(frozen=True, slots=True)
class SyntheticRun:
    folder: Path
    record: RunRecord

    def summary(self) -> Summary:
        return summarise(self.folder, self.record)

    def page(self) -> str:
        """Write the report, and return its text."""
        return write_report(self.folder, self.record, self.summary()).read_text()

    def change(self, log: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Write a log with other rows."""
        file = self.folder / f"{log}.parquet"
        change(pl.read_parquet(file)).write_parquet(file)


def rpc_frame(rng: np.random.Generator, jobs: Mapping[str, int]) -> pl.DataFrame:
    """Return the rows of RPCs of some arms, whose jobs are given."""
    rows = []
    for number, load, arm, step, op in product(
        range(ROUNDS), LOADS, jobs, range(2 * STEPS), ("pull", "push")
    ):
        metrics = rng.uniform(10, 20, 5)
        rows.append({
            "worker": 1 + step % 2, "ps": 0, "job": jobs[arm], "arm": arm, "round": number,
            "load": load, "iteration": step, "op": op, "class": "mixed" if SERVED.get(arm, 0) else "cold",
            "t_send_us": step, "request_bytes": 312, "response_bytes": 56,
            **dict(zip(list(RPC)[12:17], metrics.tolist(), strict=True)),
            "switch_us": 2.0, "latency_us": float(metrics.sum()), "lanes": 32, "served": SERVED.get(arm, 0),
            "attempts": 1, "measured": step >= STEPS,
        })  # fmt: skip
    empty = rows[0] | {"op": "empty", "round": -1, "load": 0.0, "latency_us": 80.0, "measured": False}
    return pl.DataFrame([*rows, empty], schema=RPC)


def operations_frame(rng: np.random.Generator, jobs: Mapping[str, int]) -> pl.DataFrame:
    rows = []
    for number in range(ROUNDS):
        slow_round = 1 + 0.5 * rng.random()
        for load, arm, step in product(LOADS, jobs, range(2 * STEPS)):
            pull = PULL_US.get(arm, 1000.0) * slow_round + rng.uniform(-5, 5)
            for op, latency in (("pull", pull), ("push", 800.0), ("step", pull + 900.0)):
                rows.append({
                    "worker": 1 + step % 2, "job": jobs[arm], "arm": arm, "round": number,
                    "load": load, "iteration": step, "op": op, "scheduled_us": 0, "start_us": 0,
                    "end_us": int(latency), "latency_us": latency if step >= STEPS else 1e6,
                    "rpcs": 2 if op == "step" else 1, "measured": step >= STEPS,
                })  # fmt: skip
    return pl.DataFrame(rows, schema=OPERATIONS)


def block(round_number: int, load: float, arm: str) -> Block:
    cpu = 1_000_000 if SERVED.get(arm, 0) == 0 else 400_000
    return a_block(
        round_number, arm, load, steps=2 * STEPS, period_ns=10_000_000, loss=0.6,
        fell_behind=(round_number, load, arm) == (2, 0.8, "proxy"),
        servers=ServerUse(packets=400, bytes=40_000, proc_wall_ns=2 * cpu, proc_cpu_ns=cpu, cpu_s=0.25),
        worker_cpu_s=0.5, run_queue_ms={"p1": 1.0},
    )  # fmt: skip


def make_run(folder: Path, arms: Sequence[str] = MEASURED) -> SyntheticRun:
    rng, jobs = np.random.default_rng(7), {arm: arm_of(arm).job for arm in arms}
    folder.mkdir()
    rpc_frame(rng, jobs).write_parquet(folder / "rpc.parquet")
    operations_frame(rng, jobs).write_parquet(folder / "operations.parquet")
    record = a_record(
        config={"workers": 2}, machine={"kernel": "6.1"}, placement={"p1": 0},
        jobs=jobs,
        capacity={arms[0]: 200.0}, offered_rate={"0.5": 100.0, "0.8": 160.0},
        blocks=[block(*at) for at in product(range(ROUNDS), LOADS, arms)],
        accounting=Accounting(sent=1000, applied=990, lost=0, unknown=10, mismatched_keys=0, overflows=0),
    )  # fmt: skip
    record.write(folder)
    return SyntheticRun(folder, record)
