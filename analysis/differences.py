"""Differences of each arm to its baseline, paired over rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

import numpy as np
import polars as pl

from analysis.metrics import METRICS
from analysis.record import Block
from analysis.statistics import Comparison, Rounds, compare_paired
from logs.columns import OPS
from protocol.arms import ordered

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Metrics = Mapping[str, Rounds]
"""Metric -> one estimate a round."""


def compare(
    rpc: pl.DataFrame, operations: pl.DataFrame, blocks: list[Block]
) -> dict[str, dict[str, Comparison]]:
    """Arm -> metric -> comparison, for one load."""
    return differences(estimates(rpc, operations, blocks))


def estimates(
    rpc: pl.DataFrame, operations: pl.DataFrame, blocks: list[Block]
) -> dict[str, dict[str, Rounds]]:
    """Arm -> metric -> one estimate a round, for one load; empty without a complete round.

    Only rounds in which every arm measured every operation count, so all differences are of the same ones.
    Runs of before there was *again* are compared without it.
    """
    arms = [arm.name for arm in ordered(block.arm for block in blocks)]
    operations = operations.filter(pl.col("measured"))
    rpc = rpc.filter(pl.col("measured") & (pl.col("op") != "empty"))
    rounds = complete_rounds(operations, arms)
    if not rounds:
        return {}
    metrics = of_operations(operations, arms, rounds)
    for arm in arms:
        own = [block for block in blocks if block.arm == arm]
        metrics[arm] |= _others(rpc.filter(pl.col("arm") == arm), own, rounds)
    return metrics


def differences(metrics: Mapping[str, Metrics]) -> dict[str, dict[str, Comparison]]:
    """Arm -> metric -> comparison, from what each arm has for each round."""
    return {
        arm.name: {
            metric: compare_paired(values, reference)
            for metric, values in metrics[arm.name].items()
            if _known(values) and _known(reference := metrics[arm.baseline].get(metric))
        }
        for arm in ordered(metrics)
        if arm.baseline in metrics
    }


def _known(values: Rounds | None) -> TypeGuard[Rounds]:
    """Whether there is an estimate for every round."""
    return values is not None and bool(np.isfinite(values).all())


def complete_rounds(operations: pl.DataFrame, arms: Sequence[str]) -> list[int]:
    """Rounds in which every arm has measured every operation."""
    kinds = operations.group_by("round").agg(pl.struct("arm", "op").n_unique().alias("kinds"))
    return sorted(kinds.filter(pl.col("kinds") == len(arms) * len(OPS))["round"].to_list())


def of_operations(
    operations: pl.DataFrame, arms: Iterable[str], rounds: Sequence[int]
) -> dict[str, dict[str, Rounds]]:
    """Arm -> metric -> mean or quantile (nearest rank) of measured operations in each round, in µs.

    The rounds are complete ones.
    """
    latency = pl.col("latency_us").cast(pl.Float64)
    rank = {name: (pl.len() * q).ceil().cast(pl.Int64) - 1 for name, q in QUANTILES.items()}
    estimates = (
        operations.filter(pl.col("round").is_in(rounds))
        .group_by(pl.col("arm", "op").cast(pl.String), "round")
        .agg(
            latency.mean().alias("mean"),
            *(latency.sort().get(rank[name]).alias(name) for name in rank),
            pl.col("rpcs").cast(pl.Float64).mean(),
        )
        .sort("round")
        .partition_by("arm", "op", as_dict=True)
    )
    return {
        arm: {
            f"{op}_{name}": estimates[arm, op][name].to_numpy() for op in OPS for name in ("mean", *QUANTILES)
        }
        | {"rpcs_per_step": estimates[arm, "step"]["rpcs"].to_numpy()}
        for arm in arms
    }


def _others(rpc: pl.DataFrame, blocks: Iterable[Block], rounds: Sequence[int]) -> dict[str, Rounds]:
    """Of an arm in each of these rounds: metrics of its RPCs, and of its blocks as a whole."""
    of_round = {block.round: block for block in blocks}
    own = [of_round[number] for number in rounds]
    found = {"rpc_mean": _mean_rpc(rpc, rounds)}
    # What is not known is not a number, and not compared.
    found |= {
        metric.name: np.array([metric.per_step([block]) for block in own])
        for metric in METRICS
        if metric.amount is not None
    }
    return found


def _mean_rpc(rpc: pl.DataFrame, rounds: Sequence[int]) -> Rounds:
    index = pl.DataFrame({"round": rounds}, schema={"round": pl.Int32})
    means = rpc.group_by("round").agg(pl.col("latency_us").cast(pl.Float64).mean())
    joined = index.join(means, on="round", how="left", maintain_order="left")
    return joined["latency_us"].fill_null(float("nan")).to_numpy()
