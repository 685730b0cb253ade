"""Differences of each arm to the baseline, paired over rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from analysis.record import Block
from analysis.statistics import Comparison, Estimator, compare_paired, quantile, ratio
from logs.columns import ARMS, BASELINE, OPS

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


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
    rounds = _complete_rounds(operations, arms)
    if not rounds:
        return {}
    estimators = {arm: dict(_estimators(arm, rpc, operations, blocks, rounds)) for arm in arms}
    return {
        arm: {
            metric: compare_paired(estimator, estimators[BASELINE][metric], len(rounds))
            for metric, estimator in estimators[arm].items()
        }
        for arm in arms
        if arm != BASELINE
    }


def _complete_rounds(operations: pl.DataFrame, arms: list[str]) -> list[int]:
    measured = operations.group_by("round").agg(pl.struct("arm", "op").n_unique().alias("kinds"))
    return sorted(measured.filter(pl.col("kinds") == len(arms) * len(OPS))["round"].to_list())


def _estimators(
    arm: str, rpc: pl.DataFrame, operations: pl.DataFrame, blocks: list[Block], rounds: list[int]
) -> Iterator[tuple[str, Estimator]]:
    index = pl.DataFrame({"round": rounds}, schema={"round": pl.Int32}).with_row_index()
    own_operations = operations.filter(pl.col("arm") == arm).join(index, on="round")
    for op in OPS:
        rows = own_operations.filter(pl.col("op") == op)
        yield f"{op}_mean", _mean(rows, index)
        for name, q in QUANTILES.items():
            yield f"{op}_{name}", quantile(rows["latency_us"].to_numpy(), rows["index"].to_numpy(), q)
        if op == "step":
            yield "rpcs_per_step", _mean(rows, index, "rpcs")
    yield "rpc_mean", _mean(rpc.filter(pl.col("arm") == arm).join(index, on="round"), index)
    of_round = {block.round: block for block in blocks if block.arm == arm}
    steps = [of_round[number].steps for number in rounds]
    for name, use in _PER_STEP.items():
        yield name, ratio([use(of_round[number]) for number in rounds], steps)
    losses = [of_round[number].loss for number in rounds]
    trained = [loss for loss in losses if loss is not None]
    if len(trained) == len(rounds):
        yield "loss", ratio([loss * number for loss, number in zip(trained, steps, strict=True)], steps)


_PER_STEP: dict[str, Callable[[Block], float]] = {
    "ps_proc_cpu_us_per_step": lambda block: block.servers.proc_cpu_ns / 1e3,
    "ps_cpu_us_per_step": lambda block: block.servers.cpu_s * 1e6,
    "ps_packets_per_step": lambda block: block.servers.packets,
    "ps_bytes_per_step": lambda block: block.servers.bytes,
    "worker_cpu_us_per_step": lambda block: block.worker_cpu_s * 1e6,
}


def _mean(rows: pl.DataFrame, index: pl.DataFrame, column: str = "latency_us") -> Estimator:
    values = pl.col(column).cast(pl.Float64)
    sums = rows.group_by("index").agg(values.sum().alias("sum"), values.len().alias("number"))
    ordered = index.join(sums, on="index", how="left").sort("index").fill_null(0)
    return ratio(ordered["sum"].to_numpy(), ordered["number"].to_numpy())
