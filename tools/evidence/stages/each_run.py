"""The changes that each of several real runs has measured and claimed, beside the means over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.claims import answer, claim_of_capacity
from analysis.metrics import CAPACITY, PS_CPU, PS_PACKETS, RPCS, WORKER_CPU
from analysis.summary import LoadSummary, Summary
from tools.evidence.result import Column, Row, Table
from tools.evidence.stages.real_runs import change_in_percent
from tools.evidence.stages.run_changes import STATISTIC, TITLES, measured_changes

_SHORT = {
    PS_PACKETS.name: "packets",
    "ps_bytes_per_step": "bytes",
    PS_CPU.name: "servers' CPU",
    RPCS.name: "RPCs",
    WORKER_CPU.name: "workers' CPU",
    "pull_mean": "pulls",
    "push_mean": "pushes",
    CAPACITY.name: "steps/s",
}
assert _SHORT.keys() == TITLES.keys()


def each_run(quantity: str, runs: Mapping[str, Summary], heading: str = "change by offload") -> Table:
    """Return a column for each run, which `runs` has by name."""
    changes = {name: measured_changes(summary) for name, summary in runs.items()}
    rows = [
        Row(
            names=(title,),
            cells=tuple(
                change_in_percent(of_run[metric]) if metric in of_run else None for of_run in changes.values()
            ),
        )
        for metric, title in TITLES.items()
        if any(metric in of_run for of_run in changes.values())
    ]
    loads = [_load_of(summary) for summary in runs.values()]
    rows += [
        Row(names=("rounds",), cells=tuple(float(load.rounds) for load in loads), form="{:,.0f}"),
        Row(
            names=("disturbed blocks",),
            cells=tuple(float(load.blocks_disturbed) for load in loads),
            form="{:,.0f}",
        ),
        Row(
            names=("differences claimed",),
            cells=tuple(", ".join(_claimed(summary)) or "none" for summary in runs.values()),
        ),
    ]
    return Table(
        quantity=quantity,
        statistic=STATISTIC.partition(";")[0].replace("mean of three runs", "one run"),
        headings=(heading,),
        columns=tuple(Column(name=name, form="{:+.1f} %") for name in runs),
        rows=tuple(rows),
    )


def _load_of(summary: Summary) -> LoadSummary:
    return next(iter(summary.loads.values()))


def _claimed(summary: Summary) -> Iterator[str]:
    """Yield the metrics whose differences the run's report claims."""
    claims = dict(answer(summary).claims)
    if summary.lead is not None and (capacity := claim_of_capacity(summary, summary.lead)) is not None:
        claims[CAPACITY.name] = capacity
    yield from (short for name, short in _SHORT.items() if name in claims and claims[name].sign)
