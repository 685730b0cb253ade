"""All metrics, an entry each: its name, which way is better, how it comes from logs, where it is told.

An arm's mean and a round's estimate are the same value over other rows or blocks. Whatever tells of metrics
asks for those that are `shown` there, and has no metric's name in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import polars as pl

from analysis.record import Block
from analysis.wording import Tone
from foundation.logs.columns import METRICS as FIVE

Kind = Literal["count", "cpu", "time", "learning"]
"""By it a disturbance of the machine touches a metric, or does not (`analysis.disturbance`)."""
Log = Literal["operations", "rpc"]
Better = Literal["less", "more"]
Whose = Literal["servers", "workers", "operations"]
Shown = Literal["differences", "answer", "cluster", "compare", "breakdown", "durability"]
"""Where it is told: tables of differences, a run's answer, `hotline answer`, `hotline compare`, the means of
arms on the terminal, and the table of what durability costs."""
Amount = Callable[[Block], float]
"""Of a block, all its steps together; not a number where it is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One of them."""

    name: str
    """In `differences` of `summary.json`."""
    label: str
    """In tables."""
    unit: str
    """Empty for what is merely counted, and where a table has no room: then it is that of the row above."""
    kind: Kind
    of: pl.Expr | Amount | None
    """A value of the measured rows of `log`, or what blocks count, by `per`; None of the run as a whole."""
    log: Log = "operations"
    per: Amount = lambda block: block.steps
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
    whose: Whose | None = None
    """In sentences; below how they call it: alone, and behind its number where they have said whose it is."""
    alone: str = ""
    behind: str = ""

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
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def latencies(op: str | None = None) -> dict[str, pl.Expr]:
    """Mean and quantiles (nearest rank) of `latency_us`, in µs; of one operation, or of all rows."""
    latency = pl.col("latency_us").cast(pl.Float64)
    latency = latency if op is None else latency.filter(pl.col("op") == op)
    quantiles = {name: latency.quantile(q, "equiprobable") for name, q in _QUANTILES.items()}
    return {"mean": latency.mean(), **quantiles}


def _latencies(name: str, place: str, log: Log, op: str | None, told: Mapping[str, Any]) -> Iterator[Metric]:
    """An entry for each estimate; `told` has what is particular of some, and what is so of the others."""
    for estimate, of in latencies(op).items():
        particular = told.get(estimate, told.get("others", {}))
        label, path = f"{name} {estimate}", f"{place}.{estimate}"
        yield Metric(label.replace(" ", "_").lower(), label, "µs", "time", of, log, place=path, **particular)


def _transfers(op: str, ops: str) -> Iterator[Metric]:
    told = {
        "mean": {"shown": ("differences", "answer", "cluster", "compare"), "goal": 0.03,
                 "whose": "operations", "alone": ops, "behind": f"for a {op} on average"},
        "p99": {"shown": ("differences", "cluster"), "goal": 0.1,
                "whose": "operations", "alone": f"the p99 of {ops}", "behind": f"for the p99 of a {op}"},
    }  # fmt: skip
    yield from _latencies(op, f"op_latency_us.{op}", "operations", op, told)


# fmt: off
PS_PROC_CPU = Metric(
    "ps_proc_cpu_us_per_step", "PS_proc CPU/step", "µs", "cpu", lambda block: block.servers.proc_cpu_ns / 1e3,
    place="ps_proc_us_per_step.cpu",
)
PS_CPU = Metric(
    "ps_cpu_us_per_step", "PS CPU/step", "µs", "cpu", lambda block: block.servers.cpu_s * 1e6,
    place=None, shown=("differences", "answer", "cluster", "compare"),
    whose="servers", alone="the servers' CPU a step", behind="CPU a step",
)
PS_PACKETS = Metric(
    "ps_packets_per_step", "packets to PS/step", "", "count", lambda block: block.servers.packets,
    format=",.1f", shown=("differences", "answer", "cluster", "compare"),
    whose="servers", alone="packets to the servers", behind="packets",
)
RPCS = Metric(
    "rpcs_per_step", "RPCs/step", "", "count",
    pl.col("rpcs").filter(pl.col("op") == "step").cast(pl.Float64).mean(), format=",.1f",
    shown=("differences", "answer", "cluster"), whose="workers", alone="the workers' RPCs", behind="RPCs",
)
WORKER_CPU = Metric(
    "worker_cpu_us_per_step", "worker CPU/step", "µs", "cpu", lambda block: block.worker_cpu_s * 1e6,
    place=None, shown=("differences", "answer", "cluster", "compare"),
    whose="workers", alone="the workers' CPU a step", behind="CPU a step",
)
LOSS = Metric("loss", "mean log loss", "", "learning", None, format=".4f", tolerance=0.01)
"""Of the run: an arm trains one model at all loads (`analysis.learning`)."""

_HIDDEN: Mapping[str, Any] = {"shown": (), "is_compared": False}
METRICS = {metric.name: metric for metric in (
    *_transfers("pull", "pulls"),
    *_transfers("push", "pushes"),
    *_latencies("step", "step_latency_us", "operations", "step", {"mean": {}, "others": {"shown": ()}}),
    *_latencies("RPC", "rpc_latency_us", "rpc", None,
                {"mean": {"shown": ("differences", "compare")}, "others": _HIDDEN}),
    Metric("ps_proc_wall_us_per_step", "PS_proc/step", "µs", "time",
           lambda block: block.servers.proc_wall_ns / 1e3, place="ps_proc_us_per_step.wall", **_HIDDEN),
    PS_PROC_CPU,
    PS_CPU,
    Metric("ps_cpu_without_switch_us_per_step", "PS w/o switch", "", "cpu",
           lambda block: nan if block.program_s is None
           else (block.servers.cpu_s - block.program_s.of_servers) * 1e6, place=None),
    PS_PACKETS,
    Metric("ps_bytes_per_step", "bytes to PS/step", "", "count", lambda block: block.servers.bytes,
           shown=("differences", "answer"), whose="servers", alone="bytes to the servers", behind="bytes"),
    RPCS,
    WORKER_CPU,
    Metric("worker_cpu_without_switch_us_per_step", "worker w/o switch", "", "cpu",
           lambda block: nan if block.program_s is None
           else (block.worker_cpu_s - block.program_s.of_workers) * 1e6,
           place=None, shown=("differences", "answer"), whose="workers",
           alone="the workers' CPU without the switch's program",
           behind="CPU without the switch's program, which runs on their cores"),
    *(Metric(name, name, "", "time", pl.col(f"{name}_us").cast(pl.Float64).mean(), "rpc", format=",.1f",
             place=f"metrics_us.{name}", is_compared=False, shown=("breakdown",))
      for name in (*FIVE, "switch")),
    *(Metric(name, label, unit, "time", of, per=per, format=form,
             place=f"durability.{name}", is_compared=False, shown=("durability",))
      for name, label, unit, form, of, per in (
          ("commits_per_step", "commits a step", "", ",.1f",
           lambda block: block.servers.commits, lambda block: block.steps),
          ("commit_us", "a commit", "µs", ",.1f",
           lambda block: block.servers.commit_ns / 1e3, lambda block: block.servers.commits),
          ("rpcs_per_commit", "RPCs that wait for one", "", ",.1f",
           lambda block: block.servers.delayed, lambda block: block.servers.commits),
          ("delay_us", "each of them waits", "µs", ",.1f",
           lambda block: block.servers.delay_ns / 1e3, lambda block: block.servers.delayed),
          ("share_of_ps_proc", "of all PS_proc", "", ".1%", lambda block: block.servers.delay_ns,
           lambda block: block.servers.proc_wall_ns + block.servers.delay_ns),
      )),
)}
"""Those that a load has, by their names, in the order of tables."""
# fmt: on


def shown_in(where: Shown) -> list[Metric]:
    """The metrics that are told somewhere, in the order of tables."""
    return [metric for metric in METRICS.values() if where in metric.shown]


def spoken_in(where: Shown, whose: Whose) -> list[Metric]:
    """Those that sentences speak of there, counts first."""
    found = [metric for metric in shown_in(where) if metric.whose == whose]
    return sorted(found, key=lambda metric: ("count", "cpu", "time").index(metric.kind))


def of_log(log: Log, metrics: Iterable[Metric]) -> list[pl.Expr]:
    """The values of those that come from a log, named, to aggregate its measured rows by."""
    values = [(each.name, each.of) for each in metrics if each.log == log]
    return [of.cast(pl.Float64).alias(name) for name, of in values if isinstance(of, pl.Expr)]


def of_blocks(blocks: Sequence[Block], metrics: Iterable[Metric]) -> dict[str, float]:
    """Metric -> its value over blocks, of those that come from them; 0 where nothing is to be divided by."""
    found = {}
    for metric in metrics:
        if callable(metric.of):
            whole = sum(map(metric.per, blocks))
            found[metric.name] = sum(map(metric.of, blocks)) / whole if whole else 0.0
    return found
