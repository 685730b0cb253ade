"""Differences of each arm to the baseline, paired over rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

import numpy as np
import polars as pl

from analysis.record import Block
from analysis.statistics import Comparison, Rounds, compare_paired
from logs.columns import ARMS, BASELINE, OPS

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
ONE_COURSE = ("loss",)
"""Metrics of which rounds are no repetitions: an arm's model is one, and each round trains it further."""

Metrics = Mapping[str, Rounds]
"""Metric -> one estimate a round."""


def compare(
    rpc: pl.DataFrame, operations: pl.DataFrame, blocks: list[Block]
) -> dict[str, dict[str, Comparison]]:
    """Arm -> metric -> comparison, for one load.

    Only rounds in which every arm measured every operation count, so all differences are of the same ones.
    Runs of before there was *again* are compared without it.
    """
    arms = [arm for arm in ARMS if any(block.arm == arm for block in blocks)]
    operations = operations.filter(pl.col("measured"))
    rpc = rpc.filter(pl.col("measured") & (pl.col("op") != "empty"))
    rounds = complete_rounds(operations, arms)
    if not rounds:
        return {}
    return differences(
        {
            arm: dict(_of_arm(arm, rpc, operations, [block for block in blocks if block.arm == arm], rounds))
            for arm in arms
        }
    )


def differences(metrics: Mapping[str, Metrics]) -> dict[str, dict[str, Comparison]]:
    """Arm -> metric -> comparison, from what each arm has for each round."""
    return {
        arm: {
            metric: compare_paired(values, reference, metric not in ONE_COURSE)
            for metric, values in of_arm.items()
            if _known(values) and _known(reference := metrics[BASELINE].get(metric))
        }
        for arm, of_arm in metrics.items()
        if arm != BASELINE
    }


def _known(values: Rounds | None) -> TypeGuard[Rounds]:
    """Whether there is an estimate for every round."""
    return values is not None and bool(np.isfinite(values).all())


def complete_rounds(operations: pl.DataFrame, arms: Sequence[str]) -> list[int]:
    """Rounds in which every arm has measured every operation."""
    kinds = operations.group_by("round").agg(pl.struct("arm", "op").n_unique().alias("kinds"))
    return sorted(kinds.filter(pl.col("kinds") == len(arms) * len(OPS))["round"].to_list())


def of_operations(arm: str, operations: pl.DataFrame, rounds: Iterable[int]) -> Iterator[tuple[str, Rounds]]:
    """Mean and quantiles (nearest rank) of an arm's measured operations in each of these rounds, in µs."""
    latency = pl.col("latency_us").cast(pl.Float64)
    rank = {name: (pl.len() * q).ceil().cast(pl.Int64) - 1 for name, q in QUANTILES.items()}
    estimates = [latency.mean().alias("mean"), *(latency.sort().get(rank[name]).alias(name) for name in rank)]
    own = operations.filter(pl.col("arm") == arm)
    for op in OPS:
        rows = _by_round(own.filter(pl.col("op") == op), rounds, *estimates)
        for name in ("mean", *QUANTILES):
            yield f"{op}_{name}", rows[name].to_numpy()
        if op == "step":
            yield "rpcs_per_step", _mean(own.filter(pl.col("op") == op), rounds, "rpcs")


def _of_arm(
    arm: str, rpc: pl.DataFrame, operations: pl.DataFrame, blocks: Iterable[Block], rounds: list[int]
) -> Iterator[tuple[str, Rounds]]:
    yield from of_operations(arm, operations, rounds)
    yield "rpc_mean", _mean(rpc.filter(pl.col("arm") == arm), rounds, "latency_us")
    of_round = {block.round: block for block in blocks}
    own = [of_round[number] for number in rounds]
    for name, use in _PER_STEP.items():
        yield name, np.array([use(block) / block.steps for block in own])
    losses = [block.loss for block in own if block.loss is not None]
    if len(losses) == len(own):
        yield "loss", np.array(losses)


_PER_STEP: dict[str, Callable[[Block], float]] = {
    "ps_proc_cpu_us_per_step": lambda block: block.servers.proc_cpu_ns / 1e3,
    "ps_cpu_us_per_step": lambda block: block.servers.cpu_s * 1e6,
    "ps_packets_per_step": lambda block: block.servers.packets,
    "ps_bytes_per_step": lambda block: block.servers.bytes,
    "worker_cpu_us_per_step": lambda block: block.worker_cpu_s * 1e6,
}


def _mean(rows: pl.DataFrame, rounds: Iterable[int], column: str) -> Rounds:
    return _by_round(rows, rounds, pl.col(column).cast(pl.Float64).mean().alias("mean"))["mean"].to_numpy()


def _by_round(rows: pl.DataFrame, rounds: Iterable[int], *estimates: pl.Expr) -> pl.DataFrame:
    index = pl.DataFrame({"round": list(rounds)}, schema={"round": pl.Int32})
    return index.join(rows.group_by("round").agg(estimates), on="round", how="left", maintain_order="left")
