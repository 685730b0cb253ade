"""All metrics, an entry each: its name, which way is better, how it comes from logs, where it is told.

An arm's mean and a round's estimate are the same value over other rows or blocks. Whatever tells of metrics
asks for those that are `shown` there, and has no metric's name in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

import polars as pl

from analysis.record import Block
from analysis.wording import Tone
from logs.columns import METRICS as FIVE
from logs.columns import TRANSFERS

Kind = Literal["count", "cpu", "time", "learning"]
"""By it a disturbance of the machine touches a metric, or does not (`analysis.disturbance`)."""
Log = Literal["operations", "rpc"]
Better = Literal["less", "more"]
Whose = Literal["servers", "workers", "operations", "model"]
Shown = Literal["differences", "answer", "cluster", "compare", "breakdown", "durability"]
"""Where it is told: tables of differences, a run's answer, `hotline answer`, `hotline compare`, the means of
arms on the terminal, and the table of what durability costs."""


@dataclass(frozen=True, slots=True)
class OfLog:
    """A value of the measured rows of a log; of RPCs but for empty ones."""

    log: Log
    value: pl.Expr


@dataclass(frozen=True, slots=True)
class OfBlocks:
    """What blocks count as a whole, by something else that they count."""

    amount: Callable[[Block], float]
    """Of a block; not a number where it is not known."""
    per: Callable[[Block], float] = lambda block: block.steps

    def over(self, blocks: Iterable[Block]) -> float:
        """Of these blocks together; 0 where there is nothing to divide by."""
        blocks = list(blocks)
        whole = sum(map(self.per, blocks))
        return sum(map(self.amount, blocks)) / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """How sentences speak of it."""

    whose: Whose
    alone: str
    behind: str = ""
    """Behind its number, in a sentence that has said whose it is."""


_COSTS: Mapping[tuple[Better, Tone], str] = {
    ("less", "better"): "save", ("less", "worse"): "pay",
    ("more", "better"): "gain", ("more", "worse"): "lose",
}  # fmt: skip
VERBS: Mapping[Whose, Mapping[tuple[Better, Tone], str]] = {
    "servers": _COSTS,
    "workers": _COSTS,
    "operations": {("less", "better"): "complete sooner", ("less", "worse"): "take longer"},
}
"""What sentences say of whose metrics: by which way is better, and how it is claimed to be."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One of them."""

    name: str
    """In `differences` of `summary.json`."""
    label: str
    """In tables."""
    unit: str
    """Empty for what is merely counted, and where a table has no room: then it is that of the row above."""
    kind: Kind
    of: OfLog | OfBlocks | None
    """None of the run as a whole (`analysis.learning`)."""
    format: str = ",.0f"
    better: Better = "less"
    tolerance: float = 0.0005
    """Part of the baseline's up to which arms are alike in practice: what is shown as 0.0 %, at least."""
    is_compared: bool = True
    """With the baseline's, in `differences`."""
    place: str | None = ""
    """Where arms of `summary.json` have it, with dots; empty where by its name, None where not at all."""
    goal: float | None = None
    """Half width, as a part of the baseline, below which its interval is narrow enough for a run to end."""
    shown: Sequence[Shown] = ("differences",)
    told: Told | None = None

    @property
    def title(self) -> str:
        """Of its row in a table."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def spoken(self) -> str:
        """In a sentence, in which it has no unit since it is in per cent."""
        return self.label.replace("/step", " a step")

    def tone(self, sign: int) -> Tone:
        """Whether more, or with -1 less, is better or worse."""
        return "" if not sign else "better" if (sign < 0) == (self.better == "less") else "worse"

    def written(self, value: float | None) -> str:
        """In its format; a dash where nothing was measured."""
        return "–" if value is None else format(value, self.format)


QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def latencies(op: str | None = None) -> dict[str, pl.Expr]:
    """Mean and quantiles (nearest rank) of `latency_us`, in µs; of one operation, or of all rows."""
    latency = pl.col("latency_us").cast(pl.Float64)
    latency = latency if op is None else latency.filter(pl.col("op") == op)
    return {"mean": latency.mean()} | {
        name: latency.quantile(q, "equiprobable") for name, q in QUANTILES.items()
    }


def _operations(op: str, estimate: str, value: pl.Expr) -> Metric:
    shown: dict[str, Sequence[Shown]] = {"mean": ("differences", "answer", "cluster", "compare")}
    told = Told("operations", {"pull": "pulls", "push": "pushes"}[op], f"for a {op} on average")
    if estimate != "mean":
        shown["p99"] = ("differences", "cluster")
        told = Told("operations", f"the {estimate} of a {op}", f"for the {estimate} of a {op}")
    return Metric(
        f"{op}_{estimate}", f"{op} {estimate}", "µs", "time", OfLog("operations", value),
        place=f"op_latency_us.{op}.{estimate}",
        goal={"mean": 0.03, "p99": 0.1}.get(estimate),
        shown=shown.get(estimate, ("differences",)),
        told=told,
    )  # fmt: skip


def _step(estimate: str, value: pl.Expr) -> Metric:
    return Metric(
        f"step_{estimate}", f"step {estimate}", "µs", "time", OfLog("operations", value),
        place=f"step_latency_us.{estimate}",
        shown=("differences",) if estimate == "mean" else (),
    )  # fmt: skip


def _rpc(estimate: str, value: pl.Expr) -> Metric:
    is_mean = estimate == "mean"
    return Metric(
        f"rpc_{estimate}", f"RPC {estimate}", "µs", "time", OfLog("rpc", value),
        is_compared=is_mean,
        place=f"rpc_latency_us.{estimate}",
        shown=("differences", "compare") if is_mean else (),
    )  # fmt: skip


def _part(name: str) -> Metric:
    return Metric(
        name, name, "", "time", OfLog("rpc", pl.col(f"{name}_us").cast(pl.Float64).mean()), ",.1f",
        is_compared=False,
        place=f"metrics_us.{name}",
        shown=("breakdown",),
    )  # fmt: skip


def _durability(name: str, label: str, unit: str, of: OfBlocks, form: str = ",.1f") -> Metric:
    return Metric(
        name, label, unit, "time", of, form,
        is_compared=False,
        place=f"durability.{name}",
        shown=("durability",),
    )  # fmt: skip


PS_PROC_CPU = Metric(
    "ps_proc_cpu_us_per_step", "PS_proc CPU/step", "µs", "cpu",
    OfBlocks(lambda block: block.servers.proc_cpu_ns / 1e3),
    place="ps_proc_us_per_step.cpu",
)  # fmt: skip
PS_CPU = Metric(
    "ps_cpu_us_per_step", "PS CPU/step", "µs", "cpu",
    OfBlocks(lambda block: block.servers.cpu_s * 1e6),
    place=None,
    shown=("differences", "answer", "cluster", "compare"),
    told=Told("servers", "the servers' CPU a step", "CPU a step"),
)  # fmt: skip
PS_PACKETS = Metric(
    "ps_packets_per_step", "packets to PS/step", "", "count",
    OfBlocks(lambda block: block.servers.packets), ",.1f",
    shown=("differences", "answer", "cluster", "compare"),
    told=Told("servers", "packets to the servers", "packets"),
)  # fmt: skip
WORKER_CPU = Metric(
    "worker_cpu_us_per_step", "worker CPU/step", "µs", "cpu",
    OfBlocks(lambda block: block.worker_cpu_s * 1e6),
    place=None,
    shown=("differences", "answer", "cluster", "compare"),
    told=Told("workers", "the workers' CPU a step", "CPU a step"),
)  # fmt: skip
RPCS = Metric(
    "rpcs_per_step", "RPCs/step", "", "count",
    OfLog("operations", pl.col("rpcs").filter(pl.col("op") == "step").cast(pl.Float64).mean()), ",.1f",
    shown=("differences", "answer", "cluster"),
    told=Told("workers", "the workers' RPCs", "RPCs"),
)  # fmt: skip
LOSS = Metric(
    "loss", "mean log loss", "", "learning", None, ".4f",
    tolerance=0.01,
    shown=("answer",),
    told=Told("model", "the mean log loss", "mean log loss"),
)  # fmt: skip
"""Of the run: an arm trains one model at all loads (`analysis.learning`)."""

_ALL = (
    *(_operations(op, estimate, value) for op in TRANSFERS for estimate, value in latencies(op).items()),
    *(_step(estimate, value) for estimate, value in latencies("step").items()),
    *(_rpc(estimate, value) for estimate, value in latencies().items()),
    PS_PROC_CPU,
    Metric(
        "ps_proc_wall_us_per_step", "PS_proc/step", "µs", "time",
        OfBlocks(lambda block: block.servers.proc_wall_ns / 1e3),
        is_compared=False,
        place="ps_proc_us_per_step.wall",
        shown=(),
    ),
    PS_CPU,
    Metric(
        "ps_cpu_without_switch_us_per_step", "PS w/o switch", "", "cpu",
        OfBlocks(
            lambda block: (
                nan if block.program_s is None else (block.servers.cpu_s - block.program_s.servers) * 1e6
            )
        ),
        place=None,
    ),
    PS_PACKETS,
    Metric(
        "ps_bytes_per_step", "bytes to PS/step", "", "count", OfBlocks(lambda block: block.servers.bytes),
        shown=("differences", "answer"),
        told=Told("servers", "bytes to the servers", "bytes"),
    ),
    RPCS,
    WORKER_CPU,
    Metric(
        "worker_cpu_without_switch_us_per_step", "worker w/o switch", "", "cpu",
        OfBlocks(
            lambda block: (
                nan if block.program_s is None else (block.worker_cpu_s - block.program_s.workers) * 1e6
            )
        ),
        place=None,
        shown=("differences", "answer"),
        told=Told(
            "workers", "the workers' CPU without the switch's program",
            "CPU without the switch's program, which runs on their cores",
        ),
    ),
    *map(_part, (*FIVE, "switch")),
    _durability("commits_per_step", "commits a step", "", OfBlocks(lambda block: block.servers.commits)),
    _durability(
        "commit_us", "a commit", "µs",
        OfBlocks(lambda block: block.servers.commit_ns / 1e3, lambda block: block.servers.commits),
    ),
    _durability(
        "rpcs_per_commit", "RPCs that wait for one", "",
        OfBlocks(lambda block: block.servers.delayed, lambda block: block.servers.commits),
    ),
    _durability(
        "delay_us", "each of them waits", "µs",
        OfBlocks(lambda block: block.servers.delay_ns / 1e3, lambda block: block.servers.delayed),
    ),
    _durability(
        "share_of_ps_proc", "of all PS_proc", "",
        OfBlocks(
            lambda block: block.servers.delay_ns,
            lambda block: block.servers.proc_wall_ns + block.servers.delay_ns,
        ),
        ".1%",
    ),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _ALL}
"""Those that a load has, by their names, in the order of tables."""


def shown_in(where: Shown) -> list[Metric]:
    """The metrics that are told somewhere, in the order of tables."""
    return [metric for metric in METRICS.values() if where in metric.shown]


_ORDER: tuple[Kind, ...] = ("count", "cpu", "time", "learning")


def spoken_in(where: Shown, whose: Whose) -> list[tuple[Metric, Told]]:
    """Those that sentences speak of, counts first, and how."""
    found = [
        (metric, metric.told) for metric in shown_in(where) if metric.told and metric.told.whose == whose
    ]
    return sorted(found, key=lambda each: _ORDER.index(each[0].kind))


def of_log(log: Log, metrics: Iterable[Metric]) -> list[pl.Expr]:
    """The values of those that come from a log, named, to aggregate its measured rows by."""
    sources = [(metric.name, metric.of) for metric in metrics]
    return [of.value.alias(name) for name, of in sources if isinstance(of, OfLog) and of.log == log]


def of_blocks(blocks: Sequence[Block], metrics: Iterable[Metric]) -> dict[str, float]:
    """Metric -> its value over blocks, of those that come from them."""
    sources = [(metric.name, metric.of) for metric in metrics]
    return {name: of.over(blocks) for name, of in sources if isinstance(of, OfBlocks)}
