"""The changes that real runs have measured, and tables of their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from types import MappingProxyType

from analysis.claims import answer
from analysis.forest import forest
from analysis.metrics import CAPACITY, PS_CPU, PS_PACKETS, RPCS, WORKER_CPU
from analysis.statistics import Comparison
from analysis.summary import Summary
from tools.evidence.result import Cell, Column, Measured, Row, Table

STATISTIC = (
    "mean of three runs, and the lowest and highest bound of their intervals of 95 % or more "
    "(docs/intervals.md), which with a dedicated switch include the model's error in that run; of a "
    "capacity that was measured fewer than six times, the lowest and highest of all measurements"
)
TITLES = {
    PS_PACKETS.name: "packets to the servers",
    "ps_bytes_per_step": "bytes to the servers",
    PS_CPU.name: "the servers' CPU",
    RPCS.name: "the workers' RPCs",
    WORKER_CPU.name: "the workers' CPU",
    "pull_mean": "time of a pull",
    "push_mean": "time of a push",
    CAPACITY.name: "steps/s that the cluster carries",
}
_CHANGE = "{:+.1f} %"

Changes = Mapping[str, Comparison]
"""Metric -> the change in one run."""


def measured_changes(summary: Summary) -> Changes:
    changes = {name: claim.change for name, claim in answer(summary).claims.items()}
    [capacity] = [row.measured.change for row in forest(summary, None) if row.title == CAPACITY.label] or [
        None
    ]
    return changes if capacity is None else {**changes, CAPACITY.name: capacity}


def as_table(
    quantity: str,
    runs_by_column: Mapping[str, Sequence[Changes]],
    heading: str = "change by offload",
    more_titles: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    known = {name for runs in runs_by_column.values() for changes in runs for name in changes}
    rows = [
        Row(
            names=(title,),
            cells=tuple(_cell([run.get(name) for run in runs]) for runs in runs_by_column.values()),
        )
        for name, title in {**TITLES, **more_titles}.items()
        if name in known
    ]
    columns = tuple(Column(name=name, form=_CHANGE) for name in runs_by_column)
    return Table(
        quantity=quantity, statistic=STATISTIC, headings=(heading,), columns=columns, rows=tuple(rows)
    )


def _cell(changes: Sequence[Comparison | None]) -> Cell:
    """Return the mean change in per cent, with the span of the intervals; None if some run has none."""
    known = [change for change in changes if change is not None and change.ratio is not None]
    ratios = [change.ratio for change in known if change.ratio is not None]
    if len(known) < len(changes):
        return None
    bounds = [
        bound for change in known for bound in (change.ratio_low, change.ratio_high) if bound is not None
    ]
    value = 100 * mean(ratios)
    if not bounds:
        return value
    return Measured(value=value, low=100 * min(bounds), high=100 * max(bounds))
