"""Differences of each arm to its baseline, paired over rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import nan
from typing import TypeGuard

import numpy as np
import polars as pl

from analysis.metrics import METRICS, Log, Metric, of_blocks, of_log
from analysis.record import Block
from analysis.statistics import Comparison, Rounds, compare_paired
from foundation.designs.arms import compared, ordered
from foundation.logs.columns import OPS

Metrics = Mapping[str, Rounds]
"""Metric -> one estimate a round."""


def estimates(
    rpc: pl.DataFrame, operations: pl.DataFrame, blocks: list[Block]
) -> dict[str, dict[str, Rounds]]:
    """Arm -> metric -> one estimate a round, for one load; empty without a complete round.

    Only rounds in which every arm measured every operation count, so all differences are of the same ones.
    """
    arms = [arm.name for arm in ordered(block.arm for block in blocks)]
    rounds = complete_rounds(measured_rows("operations", operations), arms)
    if not rounds:
        return {}
    wanted = [metric for metric in METRICS.values() if metric.is_compared]
    of_operations = by_round("operations", operations, arms, rounds, wanted)
    of_rpcs = by_round("rpc", rpc, arms, rounds, wanted)
    return {
        arm: {**of_operations[arm], **of_rpcs[arm], **_of_blocks(arm, blocks, rounds, wanted)} for arm in arms
    }


def differences(metrics: Mapping[str, Metrics]) -> dict[str, dict[str, Comparison]]:
    """Arm -> metric -> comparison, from what each arm has for each round."""
    return {
        arm.name: {
            metric: compare_paired(values, reference)
            for metric, values in metrics[arm.name].items()
            if _known(values) and _known(reference := metrics[baseline].get(metric))
        }
        for baseline, arms in compared(metrics).items()
        if baseline in metrics
        for arm in arms
    }


def _known(values: Rounds | None) -> TypeGuard[Rounds]:
    """Whether there is an estimate for every round."""
    return values is not None and bool(np.isfinite(values).all())


def complete_rounds(operations: pl.DataFrame, arms: Sequence[str]) -> list[int]:
    """Rounds in which every arm has measured every operation."""
    kinds = operations.group_by("round").agg(pl.struct("arm", "op").n_unique().alias("kinds"))
    return sorted(kinds.filter(pl.col("kinds") == len(arms) * len(OPS))["round"].to_list())


def measured_rows(log: Log, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a log that metrics are values of."""
    return rows.filter(pl.col("measured") if log == "operations" else _MEASURED_RPCS)


_MEASURED_RPCS = pl.col("measured") & (pl.col("op") != "empty")


def by_round(
    log: Log, rows: pl.DataFrame, arms: Sequence[str], rounds: Sequence[int], metrics: Sequence[Metric]
) -> dict[str, dict[str, Rounds]]:
    """Arm -> metric -> its value in each of these rounds, of those of a log; NaN where there is no row."""
    values = of_log(log, metrics)
    found = measured_rows(log, rows).group_by(pl.col("arm").cast(pl.String), "round").agg(values)
    schema = {"arm": pl.String, "round": pl.Int32}
    every = pl.DataFrame([*product(arms, rounds)], schema, orient="row")
    joined = every.join(found, on=[*schema], how="left", maintain_order="left").fill_null(nan)
    of_arm = joined.partition_by("arm", include_key=False, as_dict=True)
    return {arm: {each.name: each.to_numpy() for each in of_arm[arm,].drop("round")} for arm in arms}


def _of_blocks(
    arm: str, blocks: Iterable[Block], rounds: Sequence[int], metrics: Sequence[Metric]
) -> dict[str, Rounds]:
    """Metric -> its value in each of these rounds; what is not known is not a number, and not compared."""
    of_round = {block.round: block for block in blocks if block.arm == arm}
    values = [of_blocks([of_round[number]], metrics) for number in rounds]
    return {name: np.array([each[name] for each in values]) for name in values[0]}
