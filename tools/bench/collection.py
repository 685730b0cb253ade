"""`python -m tools.bench.collection`: what collecting gradients less often saves, and what it costs in loss.

Each budget is a simulated run of Adagrad with the hot set in the switch (`collect`) beside Adagrad at the
servers, on the same steps of the built-in workload, whose costs are those of `simulator.costs.Hosts`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from experiment.progress import Reporter
from foundation.designs.collect import BASELINE, COLLECT
from hosts.config import Collection
from simulator.config import SimulationConfig
from simulator.experiment import temporary_run

BUDGETS = ((20.0, 0.5), (50.0, 0.2), (200.0, 0.1), (1000.0, 0.05), (5000.0, 0.01))
"""Bound of staleness in ms, and share of the servers' time."""
_LOAD = 0.5


class Outcome(NamedTuple):
    """A budget's effect: changes against the baseline as fractions, ages in ms."""

    staleness_ms: float
    share_of_server: float
    p50_ms: float
    p99_ms: float
    late: float
    """Share of copies that were older than the bound."""
    loss: float
    """Mean log loss."""
    baseline_loss: float
    server_cpu: float
    pull: float
    packets: float
    capacity: float


def measure(
    budget: tuple[float, float], optimiser: str, steps: int, reporter: Reporter, **sizes: object
) -> Outcome:
    """Simulate a budget for some 6 rounds of a run; `steps` are the trace's."""
    staleness_ms, share = budget
    collection = Collection(staleness_ms=staleness_ms, share_of_server=share)
    given = {
        "workers": 4, "servers": 2, "rounds": 6, "trace_steps": steps, "loads": (_LOAD,),
        "optimiser": optimiser, "collection": collection, **sizes,
    }  # fmt: skip
    with temporary_run(SimulationConfig.model_validate(given), None, reporter) as (_, record, summary):
        load, ages = summary.loads[str(_LOAD)], record.staleness[COLLECT.name]
        losses = {
            arm.name: _mean([block.loss for block in record.blocks if block.arm == arm.name])
            for arm in (BASELINE, COLLECT)
        }
        ratios = {
            name: load.differences[COLLECT.name][name].ratio or 0.0
            for name in ("ps_cpu_us_per_step", "pull_mean", "ps_packets_per_step")
        }
        capacity = record.capacity[COLLECT.name] / record.capacity[BASELINE.name] - 1
    return Outcome(
        staleness_ms, share, ages.p50_ms, ages.p99_ms, ages.late / max(ages.copies, 1), losses[COLLECT.name],
        losses[BASELINE.name], ratios["ps_cpu_us_per_step"], ratios["pull_mean"],
        ratios["ps_packets_per_step"], capacity,
    )  # fmt: skip


def _mean(losses: Sequence[float | None]) -> float:
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known)


@click.command()
@click.option("--optimiser", default="adagrad(lr=0.1)", show_default=True)
@click.option("--steps", default=1200, show_default=True, type=click.IntRange(24))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(optimiser: str, steps: int, as_json: bool) -> None:
    """Print the effect of each budget for collections."""
    console = Console(stderr=True)
    outcomes = []
    for budget in BUDGETS:
        console.print(f"{budget[0]:g} ms, {budget[1]:.0%} of the servers' time")
        outcomes.append(measure(budget, optimiser, steps, Reporter(console)))
    if as_json:
        print(json.dumps([outcome._asdict() for outcome in outcomes]))
        return
    table = Table()
    for title in ("bound", "share", "age p50", "p99", "late", "loss", "servers' CPU", "pull", "capacity"):
        table.add_column(title, justify="right")
    for each in outcomes:
        table.add_row(
            f"{each.staleness_ms:g} ms", f"{each.share_of_server:.0%}", f"{each.p50_ms:.0f} ms",
            f"{each.p99_ms:.0f} ms", f"{each.late:.1%}", f"{each.loss:.4f}", f"{each.server_cpu:+.0%}",
            f"{each.pull:+.1%}", f"{each.capacity:+.0%}",
        )  # fmt: skip
    Console().print(table)
    print(f"Loss without the switch: {outcomes[0].baseline_loss:.4f}")


if __name__ == "__main__":
    main()
