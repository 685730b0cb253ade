"""`python -m tools.bench.nulls RUN...`: how often a run claims a difference although there is none.

Null runs are generated from the blocks of recorded runs: each round takes three arms of one recorded round
in random order as baseline, repeat and offload, each arm divided by its mean over the recording. So nothing
differs, and tails, stalls and drifts are the recorded ones. A null run ends by the rule, and the code, of
real runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from analysis.metrics import answer_metrics, differences, estimates
from analysis.record import Block, End, ServerUse, read_record, scan_log
from analysis.statistics import Rounds
from analysis.stopping import claims_of_answer
from experiment.phases.rounds import RoundCount
from experiment.run_config import Config
from foundation.designs.hotset import BASELINE, OFFLOAD, PROXY, REPEAT
from foundation.logs.columns import OPS, has_load
from tests.harness.records import a_block

Recording = Mapping[str, Mapping[str, Rounds]]
"""Arm -> metric -> estimate of each round."""
ARMS = (BASELINE.name, REPEAT.name, OFFLOAD.name)
_SOURCES = (BASELINE.name, REPEAT.name, PROXY.name)  # the proxy has no effect with few workers
_TIMES = {"pull": "pull_mean", "push": "push_mean", "step": "step_mean"}
_STEPS = 1_000
_LOAD = 0.5
_SCALE = 1_000  # estimates are ratios to a mean; multiplied by this, they can be rounded
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class NullRun:
    ended_by: End
    rounds: int
    claimed: frozenset[str]  # names of the metrics in which the run claims a difference


def read(run: Path) -> Iterator[Recording]:
    record = read_record(run)
    operations = scan_log(run, "operations").collect()
    for load in sorted({block.load for block in record.blocks}):
        blocks = [block for block in record.blocks if block.load == load]
        rounds_by_arm = estimates(rpc=None, operations=operations.filter(has_load(load)), blocks=blocks)
        if set(_SOURCES) <= set(rounds_by_arm):
            yield {arm: rounds_by_arm[arm] for arm in _SOURCES}


def null_run(recording: Recording, rng: np.random.Generator) -> NullRun:
    config = Config(arms=ARMS, loads=(_LOAD,))
    count = RoundCount(config, clock=lambda: 0.0)  # no time passes, so the budget never ends a run
    blocks, rows = list[Block](), list[pl.DataFrame]()
    ended_by: End | None = None
    while ended_by is None:
        values_by_arm = dict(zip(ARMS, _draw(recording, rng), strict=True))
        blocks += [_block(arm, count.done, values) for arm, values in values_by_arm.items()]
        rows.append(_operations(count.done, values_by_arm))
        ended_by = count.end(rows[-1], blocks)
    comparisons = differences(estimates(rpc=None, operations=pl.concat(rows), blocks=blocks), count.alpha)
    claims = claims_of_answer(comparisons, OFFLOAD.name)
    return NullRun(ended_by, count.done, frozenset(each.metric.name for each in claims if each.sign))


def _draw(recording: Recording, rng: np.random.Generator) -> Sequence[Mapping[str, float]]:
    arms = [recording[arm] for arm in rng.permutation(_SOURCES)]
    number = rng.integers(len(next(iter(arms[0].values()))))
    # A metric whose mean is 0 is 0 in every round, and stays 0.
    return [
        {name: float(values[number] / (values.mean() or 1.0)) for name, values in arm.items()} for arm in arms
    ]


def _block(arm: str, number: int, values: Mapping[str, float]) -> Block:
    use = ServerUse(
        packets=round(values["ps_packets_per_step"] * _STEPS * _SCALE),
        bytes=round(values["ps_bytes_per_step"] * _STEPS * _SCALE),
        cpu_s=values["ps_cpu_us_per_step"] * _STEPS,
    )
    worker_cpu_s = values["worker_cpu_us_per_step"] * _STEPS
    return a_block(number, arm, _LOAD, steps=_STEPS, servers=use, worker_cpu_s=worker_cpu_s)


def _operations(number: int, values_by_arm: Mapping[str, Mapping[str, float]]) -> pl.DataFrame:
    rows = [
        {
            "arm": arm,
            "op": op,
            "round": number,
            "load": _LOAD,
            "latency_us": _SCALE * values[_TIMES[op]],
            "rpcs": values["rpcs_per_step"],
            "measured": True,
        }
        for arm, values in values_by_arm.items()
        for op in OPS
    ]
    return pl.DataFrame(rows, schema_overrides={"round": pl.Int32})


def rates(runs: Sequence[NullRun]) -> dict[str, float]:
    """Return metric -> share of the runs that claim a difference in it, and "any" for any metric."""
    claims = Counter(name for run in runs for name in run.claimed)
    shares = {
        metric.name: claims[metric.name] / len(runs)
        for metric in answer_metrics()
        if metric.kind != "learning"
    }
    return shares | {"any": sum(bool(run.claimed) for run in runs) / len(runs)}


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_FOLDER)
@click.option("--number", default=1_000, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--seed", default=1, show_default=True)
def main(runs: Sequence[Path], number: int, seed: int) -> None:
    """Generate null runs from recorded ones, and print how often they claim a difference."""
    recordings = [recording for run in runs for recording in read(run)]
    rng = np.random.default_rng(seed)
    null_runs = [null_run(recordings[k % len(recordings)], rng) for k in range(number)]
    table = Table("metric", "claimed falsely", box=None)
    for name, rate in rates(null_runs).items():
        table.add_row(name, f"{rate:.1%}")
    console = Console()
    console.print(table)
    for reason, count in Counter(run.ended_by for run in null_runs).items():
        console.print(f"ended by {reason}: {count:,} of {number:,} runs")
    console.print(f"mean rounds: {np.mean([run.rounds for run in null_runs]):.1f}")


if __name__ == "__main__":
    main()
