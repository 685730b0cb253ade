"""All metrics and their values: of an arm, of each round, and compared with the baseline's.

An arm's mean and a round's estimate are the same expression over different rows or blocks. Tables and
sentences select metrics by `shown` and name none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isnan, nan
from typing import Any, Literal, TypeGuard

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from analysis.record import Block
from analysis.statistics import ALPHA, Comparison, Rounds, compare_paired
from foundation.designs.arms import arms_by_reference, arms_in_order
from foundation.logs.columns import METRICS as RPC_METRICS
from foundation.logs.columns import OPS

Kind = Literal["count", "cpu", "time", "learning"]
"""Kind of a metric; it decides which disturbances invalidate the metric (`analysis.disturbance`)."""
Log = Literal["operations", "rpc"]
Better = Literal["less", "more"]
Tone = Literal["", "better", "worse"]
Subject = Literal["servers", "workers", "operations"]
Shown = Literal["differences", "answer", "cluster", "compare", "breakdown", "durability"]
"""Place that shows a metric: tables of differences, a run's answer, `hotline answer` (cluster), `hotline
compare`, the arms' means on the terminal (breakdown), or the table of the cost of durability."""
Amount = Callable[[Block], float]
"""Returns the amount of a block, over all its steps; NaN if it is unknown."""
MIN_ROUNDS_FOR_PRECISION = 10
"""Minimum number of rounds to end a run for its precision: with fewer, narrow intervals may be chance."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    name: str
    label: str
    unit: str
    """Unit; empty for a count, and if it is the unit of the row above."""
    kind: Kind
    quantity: pl.Expr | Amount | None
    """Value of the measured rows of `log`, or a block's amount, divided by `per`; None for a run's metric."""
    log: Log = "operations"
    per: Amount = lambda block: block.steps
    format: str = ",.0f"
    better: Better = "less"
    tolerance: float = 0.0005
    """Share of the baseline's value up to which arms count as equal; the default is shown as 0.0 %."""
    is_compared: bool = True  # round by round, with the baseline
    summary_path: str | None = ""
    """Dotted path in an arm of `summary.json`; empty for the metric's name, None if arms do not have it."""
    goal: float | None = None
    """Half width of the interval, as a share of the baseline, below which a run may end."""
    shown: Sequence[Shown] = ("differences",)
    subject: Subject | None = None
    noun: str = ""  # name in sentences

    @property
    def title(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def tone(self, sign: int) -> Tone:
        return "" if not sign else "better" if (sign < 0) == (self.better == "less") else "worse"

    def format_value(self, value: float | None) -> str:
        return "–" if value is None else format(value, self.format)


_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def latencies(op: str | None = None) -> dict[str, pl.Expr]:
    """Return mean and quantiles (nearest rank) of `latency_us` in µs, of one operation or of all rows."""
    latency = pl.col("latency_us").cast(pl.Float64)
    latency = latency if op is None else latency.filter(pl.col("op") == op)
    quantiles = {name: latency.quantile(q, "equiprobable") for name, q in _QUANTILES.items()}
    return {"mean": latency.mean(), **quantiles}


def _latency_metrics(
    name: str, summary_parent: str, log: Log, op: str | None, fields_by_estimate: Mapping[str, Any]
) -> Iterator[Metric]:
    for estimate, quantity in latencies(op).items():
        fields = fields_by_estimate.get(estimate, fields_by_estimate.get("others", {}))
        label, path = f"{name} {estimate}", f"{summary_parent}.{estimate}"
        yield Metric(
            label.replace(" ", "_").lower(), label, "µs", "time", quantity, log, summary_path=path, **fields
        )


def _transfer_metrics(op: str, ops: str) -> Iterator[Metric]:
    fields_by_estimate = {
        "mean": {"shown": ("differences", "answer", "cluster", "compare"), "goal": 0.03,
                 "subject": "operations", "noun": ops},
        "p99": {"shown": ("differences", "cluster"), "goal": 0.1,
                "subject": "operations", "noun": f"the p99 of {ops}"},
    }  # fmt: skip
    yield from _latency_metrics(op, f"op_latency_us.{op}", "operations", op, fields_by_estimate)


def _cpu_us_without(program_s: float, cpu_s: float) -> float:
    # The two are read from different clocks, whose resolution can make the difference negative.
    return program_s if isnan(program_s) else max(0.0, cpu_s - program_s) * 1e6


# fmt: off
PS_PROC_CPU = Metric(
    "ps_proc_cpu_us_per_step", "PS_proc CPU", "µs", "cpu", lambda block: block.servers.proc_cpu_ns / 1e3,
    summary_path="ps_proc_us_per_step.cpu",
)
PS_CPU = Metric(
    "ps_cpu_us_per_step", "PS CPU/step", "µs", "cpu", lambda block: block.servers.cpu_s * 1e6,
    summary_path=None, shown=("differences", "answer", "cluster", "compare"),
    subject="servers", noun="CPU a step",
)
PS_PACKETS = Metric(
    "ps_packets_per_step", "packets to PS/step", "", "count", lambda block: block.servers.packets,
    format=",.1f", shown=("differences", "answer", "cluster", "compare"), subject="servers", noun="packets",
)
RPCS = Metric(
    "rpcs_per_step", "RPCs/step", "", "count",
    pl.col("rpcs").filter(pl.col("op") == "step").cast(pl.Float64).mean(), format=",.1f",
    shown=("differences", "answer", "cluster"), subject="workers", noun="RPCs",
)
WORKER_CPU = Metric(
    "worker_cpu_us_per_step", "worker CPU/step", "µs", "cpu", lambda block: block.worker_cpu_s * 1e6,
    summary_path=None, shown=("differences", "answer", "cluster", "compare"),
    subject="workers", noun="CPU a step",
)
PS_CPU_WITHOUT_SWITCH = Metric(
    "ps_cpu_without_switch_us_per_step", "PS w/o switch", "", "cpu",
    lambda block: nan if block.program_s is None
    else _cpu_us_without(block.program_s.of_servers, block.servers.cpu_s), summary_path=None,
)
AGENTS_CPU = Metric(
    "agents_cpu_us_per_step", "CPU of all agents", "", "cpu",
    lambda block: (block.servers.cpu_s + block.worker_cpu_s) * 1e6, summary_path=None,
)
CAPACITY = Metric("capacity", "capacity", "steps/s", "time", None, better="more")
"""Steps/s of all workers in closed loops, a metric of the whole run: it is measured outside of the rounds."""
LOSS = Metric("loss", "mean log loss", "", "learning", None, format=".4f", tolerance=0.01)
"""The loss, a metric of the whole run: an arm trains one model at all loads (`analysis.learning`)."""

_HIDDEN_FIELDS: Mapping[str, Any] = {"shown": (), "is_compared": False}
METRICS = {metric.name: metric for metric in (
    *_transfer_metrics("pull", "pulls"),
    *_transfer_metrics("push", "pushes"),
    *_latency_metrics("step", "step_latency_us", "operations", "step", {"mean": {}, "others": {"shown": ()}}),
    *_latency_metrics("RPC", "rpc_latency_us", "rpc", None,
                {"mean": {"shown": ("differences", "compare")}, "others": _HIDDEN_FIELDS}),
    Metric("ps_proc_wall_us_per_step", "PS_proc/step", "µs", "time",
           lambda block: block.servers.proc_wall_ns / 1e3, summary_path="ps_proc_us_per_step.wall",
           **_HIDDEN_FIELDS),
    PS_PROC_CPU,
    PS_CPU,
    PS_CPU_WITHOUT_SWITCH,
    PS_PACKETS,
    Metric("ps_bytes_per_step", "bytes to PS/step", "", "count", lambda block: block.servers.bytes,
           shown=("differences", "answer"), subject="servers", noun="bytes"),
    RPCS,
    WORKER_CPU,
    Metric("worker_cpu_without_switch_us_per_step", "worker w/o switch", "", "cpu",
           lambda block: nan if block.program_s is None
           else _cpu_us_without(block.program_s.of_workers, block.worker_cpu_s),
           summary_path=None, shown=("differences", "answer"),
           subject="workers", noun="CPU without the switch's program"),
    AGENTS_CPU,
    *(Metric(name, name, "", "time", pl.col(f"{name}_us").cast(pl.Float64).mean(), "rpc", format=",.1f",
             summary_path=f"metrics_us.{name}", is_compared=False, shown=("breakdown",))
      for name in (*RPC_METRICS, "switch")),
    *(Metric(name, label, unit, "time", quantity, per=per, format=number_format,
             summary_path=f"durability.{name}", is_compared=False, shown=("durability",))
      for name, label, unit, number_format, quantity, per in (
          ("commits_per_step", "commits/step", "", ",.1f",
           lambda block: block.servers.commits, lambda block: block.steps),
          ("commit_us", "time per commit", "µs", ",.1f",
           lambda block: block.servers.commit_ns / 1e3, lambda block: block.servers.commits),
          ("rpcs_per_commit", "RPCs per commit", "", ",.1f",
           lambda block: block.servers.delayed, lambda block: block.servers.commits),
          ("delay_us", "commit wait per RPC", "µs", ",.1f",
           lambda block: block.servers.delay_ns / 1e3, lambda block: block.servers.delayed),
          ("share_of_ps_proc", "commit wait / PS_proc", "", ".1%", lambda block: block.servers.delay_ns,
           lambda block: block.servers.proc_wall_ns + block.servers.delay_ns),
      )),
)}
"""Metrics of a load by name, in the order of tables."""
# fmt: on


def metrics_of_table(table: Shown) -> list[Metric]:
    return [metric for metric in METRICS.values() if table in metric.shown]


def metrics_of_subject(table: Shown, subject: Subject) -> list[Metric]:
    metrics = [metric for metric in metrics_of_table(table) if metric.subject == subject]
    return sorted(metrics, key=lambda metric: ("count", "cpu", "time").index(metric.kind))


def answer_metrics() -> list[Metric]:
    subjects: tuple[Subject, ...] = ("servers", "workers", "operations")
    return [*(metric for subject in subjects for metric in metrics_of_subject("answer", subject)), LOSS]


def log_expressions(log: Log, metrics: Iterable[Metric]) -> list[pl.Expr]:
    values = [(metric.name, metric.quantity) for metric in metrics if metric.log == log]
    return [value.cast(pl.Float64).alias(name) for name, value in values if isinstance(value, pl.Expr)]


def block_metrics(blocks: Sequence[Block], metrics: Iterable[Metric]) -> dict[str, float]:
    values = {}
    for metric in metrics:
        if callable(metric.quantity):
            total = sum(map(metric.per, blocks))
            values[metric.name] = sum(map(metric.quantity, blocks)) / total if total else 0.0
    return values


def estimates(
    rpc: pl.DataFrame | None, operations: pl.DataFrame, blocks: Sequence[Block]
) -> dict[str, dict[str, Rounds]]:
    """Return arm -> metric -> one estimate per round, for rounds in which all arms measured everything."""
    arms = [arm.name for arm in arms_in_order(block.arm for block in blocks)]
    rounds = complete_rounds(measured_rows("operations", operations), arms)
    if not rounds:
        return {}
    metrics = [metric for metric in METRICS.values() if metric.is_compared]
    operation_estimates = by_round("operations", operations, arms, rounds, metrics)
    rpc_estimates = {} if rpc is None else by_round("rpc", rpc, arms, rounds, metrics)
    return {
        arm: {
            **operation_estimates[arm],
            **rpc_estimates.get(arm, {}),
            **_block_values_by_round(arm, blocks, rounds, metrics),
        }
        for arm in arms
    }


def differences(
    metrics: Mapping[str, Mapping[str, Rounds]], alpha: float = ALPHA
) -> dict[str, dict[str, Comparison]]:
    return {
        arm.name: {
            metric: compare_paired(values, reference, alpha)
            for metric, values in metrics[arm.name].items()
            if _is_known(values) and _is_known(reference := metrics[baseline].get(metric))
        }
        for baseline, arms in arms_by_reference(metrics).items()
        if baseline in metrics
        for arm in arms
    }


def _is_known(values: Rounds | None) -> TypeGuard[Rounds]:
    return values is not None and bool(np.isfinite(values).all())


def complete_rounds(operations: pl.DataFrame, arms: Sequence[str]) -> list[int]:
    # A round is complete if each arm has measured each kind of operation in it.
    kinds = operations.group_by("round").agg(pl.struct("arm", "op").n_unique().alias("kinds"))
    return sorted(kinds.filter(pl.col("kinds") == len(arms) * len(OPS))["round"].to_list())


def measured_rows(log: Log, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("measured") if log == "operations" else _MEASURED_RPCS)


_MEASURED_RPCS = pl.col("measured") & (pl.col("op") != "empty")


def by_round(
    log: Log, rows: pl.DataFrame, arms: Sequence[str], rounds: Sequence[int], metrics: Sequence[Metric]
) -> dict[str, dict[str, Rounds]]:
    values = log_expressions(log, metrics)
    values_by_round = measured_rows(log, rows).group_by(pl.col("arm").cast(pl.String), "round").agg(values)
    schema = {"arm": pl.String, "round": pl.Int32}
    all_rounds = pl.DataFrame([*product(arms, rounds)], schema, orient="row")
    joined = all_rounds.join(values_by_round, on=[*schema], how="left", maintain_order="left").fill_null(nan)
    rows_of_arm = joined.partition_by("arm", include_key=False, as_dict=True)
    return {
        arm: {column.name: column.to_numpy() for column in rows_of_arm[arm,].drop("round")} for arm in arms
    }


def _block_values_by_round(
    arm: str, blocks: Iterable[Block], rounds: Sequence[int], metrics: Sequence[Metric]
) -> dict[str, Rounds]:
    block_of_round = {block.round: block for block in blocks if block.arm == arm}
    values = [block_metrics([block_of_round[number]], metrics) for number in rounds]
    return {name: np.array([block_values[name] for block_values in values]) for name in values[0]}


class Width(BaseModel):
    model_config = ConfigDict(frozen=True)

    load: str
    arm: str
    metric: str
    half_width: float  # as a share of the baseline, like the goal
    goal: float


def goals() -> dict[str, float]:
    return {metric.name: metric.goal for metric in METRICS.values() if metric.goal is not None}


def widths(load: str, differences: Mapping[str, Mapping[str, Comparison]]) -> Iterator[Width]:
    for arm, metrics in differences.items():
        for metric, goal in goals().items():
            comparison = metrics.get(metric)
            if comparison is not None and comparison.half_width is not None:
                yield Width(load=load, arm=arm, metric=metric, half_width=comparison.half_width, goal=goal)


def find_widest(interval_widths: Iterable[Width]) -> Width | None:
    return max(interval_widths, key=lambda width: width.half_width / width.goal, default=None)
