"""The data of figures: the measured RPCs of a run, or the logs of a real cluster, read lazily."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import polars as pl

from analysis.figures.distribution import Key
from analysis.figures.model import colour_of
from analysis.learning import Curves, read_curves
from analysis.record import AnalysisError, RunRecord, open_log, read_record, scan_log
from foundation.designs.arms import (
    all_arms,
    arms_in_order,
    is_lockstep,
    reference_of,
)
from foundation.logs.cluster import CLUSTER, ClusterLogs
from foundation.logs.columns import LOGS
from foundation.logs.counts import Counts

T = TypeVar("T")

BLOCK_COLUMNS = ("round", "load")
"""Columns that identify a run's blocks; times of different blocks are not compared."""


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    rpc: pl.LazyFrame
    """Measured RPCs that have lanes: columns of Pan et al. §2.2 (docs/logs.md), `latency_us` and `arm`."""
    connections: pl.LazyFrame | None
    updates: Sequence[Path]  # update logs
    job: int | None  # whose updates are counted; None for all
    arms: tuple[str, ...]
    operations: pl.LazyFrame | None = None
    record: RunRecord | None = None
    loss_curves: Curves = field(default_factory=dict)

    def counts(self) -> Counts | None:
        return Counts.of_logs(self.updates, self.job) if self.updates else None


def source_of_run(run: Path) -> Source:
    record = read_record(run)
    if not record.blocks:
        raise AnalysisError(f"{run}: the run ended before anything was measured ({record.error})")
    logs = {log: run / f"{log}.parquet" for log in LOGS}
    rpc, operations = (scan_log(run, log).filter("measured") for log in ("rpc", "operations"))
    # As text, because figures look up curves and panels by name.
    text_columns = [pl.col(name).cast(pl.String) for name in ("arm", "op", "class")]
    jobs = {arm.job: arm.name for arm in all_arms().values() if arm.is_measured}
    arm_of_job = pl.col("job").replace_strict(jobs, default=None, return_dtype=pl.String)
    measured_arms = arms_in_order(block.arm for block in record.blocks)
    arms = tuple(arm.name for arm in measured_arms)
    # In lockstep designs workers add whole vectors, so servers count no updates.
    counts_updates = not any(is_lockstep(arm.design) for arm in measured_arms)
    return Source(
        name=str(record.workload.get("name", run.name)),
        rpc=rpc.filter(pl.col("op") != "empty").with_columns(text_columns),  # an empty RPC has no lanes
        connections=open_log(run, "connections").with_columns(arm=arm_of_job).drop_nulls("arm")
        if logs["connections"].exists()
        else None,
        updates=[logs["updates"]] if logs["updates"].exists() and counts_updates else [],
        job=reference_of(arms).job,
        arms=arms,
        operations=operations,
        record=record,
        loss_curves=read_curves(run),
    )


def source_of_cluster(logs: ClusterLogs) -> Source:
    arms = logs.rpc.select(pl.col("arm").unique()).collect(engine="streaming")["arm"].sort().to_list()
    return Source(
        name=logs.folder.resolve().name or CLUSTER,
        rpc=logs.rpc,
        connections=logs.connections,
        updates=logs.updates,
        job=None,
        arms=tuple(arms),
    )


def rows_in_blocks(rows: pl.DataFrame, time_us: str, record: RunRecord | None) -> pl.DataFrame:
    """Return the rows within the arms' blocks; all rows of a cluster, or of blocks without times."""
    blocks = [] if record is None else [block for block in record.blocks if block.ended_us]
    if not blocks:
        return rows
    spans = pl.DataFrame(
        [(block.begun_us, block.ended_us, block.arm) for block in blocks],
        schema={"begun_us": pl.Int64, "ended_us": pl.Int64, "arm": pl.String},
        orient="row",
    )
    # Blocks do not overlap: a row can only be in the arm's last block that had begun. Both sides are sorted,
    # which polars cannot check with `by`.
    return (
        rows.sort(time_us)
        .join_asof(
            spans.sort("begun_us"), left_on=time_us, right_on="begun_us", by="arm", check_sortedness=False
        )
        .filter(pl.col(time_us) <= pl.col("ended_us"))
        .drop("begun_us", "ended_us")
    )


@dataclass(frozen=True, slots=True)
class FigureCurve:
    source: Source
    arm: str
    name: str
    colour: str
    dash: int


def curves(sources: Sequence[Source], with_repetitions: bool = False) -> Iterator[FigureCurve]:
    number, arms = 0, all_arms()
    for dash, source in enumerate(sources):
        for arm in source.arms:
            if with_repetitions or arm not in arms or not arms[arm].is_repetition:
                name = arm if len(sources) == 1 else f"{source.name}, {arm}"
                yield FigureCurve(source, arm, name, colour_of(arm, number), dash)
                number += 1


def by_curve(
    sources: Sequence[Source], measure: Callable[[Source], Mapping[Key, T]]
) -> list[tuple[FigureCurve, dict[Key, T]]]:
    """Measure each source once; return the results of each curve, by their keys without the arm."""
    # Sources cannot be keys of a dict, so their identities are.
    measured = {id(source): measure(source) for source in sources}
    return [
        (curve, {key[1:]: value for key, value in measured[id(curve.source)].items() if key[0] == curve.arm})
        for curve in curves(sources)
    ]
