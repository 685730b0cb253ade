"""`python -m tools.bench.repeat`: check that results of runs are reproducible, in new runs or run folders.

`null` makes short runs with different seeds, so that the order of blocks differs. About 5 % of the 95 %
intervals of arm *repeat* should leave out 0, and few of the report's sentences, with *repeat* in the place of
*offload*, may claim a difference. `default` makes runs with default settings. In most pairs of them the
estimates of *offload* - *baseline* should differ by at most √(h₁² + h₂²), where h is a half width, and each
run should claim that the servers receive fewer packets and spend less CPU.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import click
from rich import box
from rich.console import Console
from rich.table import Table

from analysis.claims import claim_of_learning, claims
from analysis.metrics import LOSS, PS_CPU, PS_PACKETS, Metric, answer_metrics
from analysis.record import AnalysisError
from analysis.statistics import Comparison
from analysis.summary import Summary, read_summary
from analysis.wording import in_sentences
from foundation.designs.hotset import BASELINE, OFFLOAD, REPEAT
from foundation.logs.columns import TRANSFERS
from foundation.text import pluralize

SHORT: dict[str, object] = {
    "budget_s": 50.0, "block_ms": 300, "discard_ms": 100, "block_steps": 50, "calibration_s": 1.0,
    "empty_rpcs": 50, "simulate_dedicated_switch": False, "profile_lanes": 300_000,
}  # fmt: skip
"""Settings of a short run, which ends by the same rule as any other run."""
NULL_SHARES = (0.02, 0.08)
"""Lowest and highest accepted share of null intervals that leave out 0."""
MAX_METRIC_SHARE = 0.2
"""Largest accepted share for a single metric."""
MIN_AGREEING = 0.85  # share of the pairs of runs
MAX_FALSE_CLAIMS = 0.08
"""Largest accepted share of claims where nothing differs."""
ALWAYS_CLAIMED = (PS_PACKETS, PS_CPU)
"""Metrics that offload reduces so clearly that every default run should claim the reduction."""


class Tally(NamedTuple):
    """Number of runs with an interval of one metric at one load, and of those that leave out 0."""

    load: str
    metric: str
    intervals: int
    left_out: int


class Pair(NamedTuple):
    """Distance between two runs' estimates of *offload* - *baseline*, and their joint half width."""

    runs: tuple[int, int]
    load: str
    op: str
    distance: float
    joint_half_width: float

    @property
    def agrees(self) -> bool:
        return self.distance <= self.joint_half_width


def tallies(summaries: Sequence[Summary]) -> list[Tally]:
    """Return the intervals of *repeat* in all runs, by load and metric, without those of width 0."""
    outside_by_metric: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for summary in summaries:
        for load, load_summary in summary.loads.items():
            for metric, each in load_summary.differences.get(REPEAT.name, {}).items():
                if each.low is not None and each.high is not None and each.low < each.high:
                    outside_by_metric[load, metric].append(not each.low <= 0 <= each.high)
    return [Tally(*key, len(outside), sum(outside)) for key, outside in outside_by_metric.items()]


class ClaimCounts(NamedTuple):
    """How often the report mentions a metric, and how often it claims a difference, over all runs."""

    metric: str
    sentences: int
    claimed: int


def claims_of_null(summaries: Sequence[Summary]) -> list[ClaimCounts]:
    """Return claims with *repeat* in the place of *offload*, at every load; intervals decide alone."""
    claimed_by_metric: dict[str, list[bool]] = defaultdict(list)
    names = {metric.name for metric in answer_metrics()}
    for summary in summaries:
        for load in summary.loads:
            for metric, claim in claims(summary, load, REPEAT.name).items():
                if metric in names:
                    claimed_by_metric[metric].append(claim.sign != 0)
        learnt = claim_of_learning(summary, REPEAT.name)
        if learnt is not None:
            claimed_by_metric[LOSS.name].append(learnt.sign != 0)
    return [ClaimCounts(metric, len(claimed), sum(claimed)) for metric, claimed in claimed_by_metric.items()]


def missing_claims(summary: Summary, metrics: Sequence[Metric] = ALWAYS_CLAIMED) -> list[str]:
    """Return the labels of `metrics` in which a run claims no improvement by *offload* at its first load."""
    claim_by_metric = claims(summary, next(iter(summary.loads)), OFFLOAD.name)
    return [
        in_sentences(metric.label)
        for metric in metrics
        if metric.name not in claim_by_metric or claim_by_metric[metric.name].tone != "better"
    ]


def pairs(summaries: Sequence[Summary], relative: bool = False) -> Iterator[Pair]:
    """Yield pairs of runs at each common load, for pull and push, in µs or as shares of *baseline*."""
    for (one, first), (other, second) in combinations(enumerate(summaries, start=1), 2):
        for load, op in product(first.loads, TRANSFERS):
            estimates = [_estimate(summary, load, op, relative) for summary in (first, second)]
            known_estimates = [estimate for estimate in estimates if estimate is not None]
            if len(known_estimates) == 2:
                (first_difference, second_difference), half_widths = zip(*known_estimates, strict=True)
                distance = abs(first_difference - second_difference)
                yield Pair((one, other), load, op, distance, math.hypot(*half_widths))


def _estimate(summary: Summary, load: str, op: str, relative: bool) -> tuple[float, float] | None:
    comparison = _offload_difference(summary, load, op)
    if comparison is None or comparison.low is None or comparison.high is None:
        return None
    if not relative:
        return comparison.difference, (comparison.high - comparison.low) / 2
    if comparison.ratio is None or comparison.half_width is None:
        return None
    return comparison.ratio, comparison.half_width


def _offload_difference(summary: Summary, load: str, op: str) -> Comparison | None:
    load_summary = summary.loads.get(load)
    return None if load_summary is None else load_summary.differences.get(OFFLOAD.name, {}).get(f"{op}_mean")


def print_null(summaries: Sequence[Summary], console: Console) -> bool:
    all_tallies = tallies(summaries)
    by_metric: dict[str, dict[str, Tally]] = defaultdict(dict)
    for tally in all_tallies:
        by_metric[tally.metric][tally.load] = tally
    loads = sorted({tally.load for tally in all_tallies})
    table = _table("intervals of repeat that leave out 0", *(f"load {load}" for load in loads))
    for metric, tally_by_load in by_metric.items():
        table.add_row(metric, *(_tally_cell(tally_by_load.get(load)) for load in loads))
    console.print(table)
    intervals = sum(each.intervals for each in all_tallies)
    left_out = sum(each.left_out for each in all_tallies)
    if not intervals:
        console.print("No run has intervals.")
        return False
    share, worst = left_out / intervals, max(each.left_out / each.intervals for each in all_tallies)
    is_met = NULL_SHARES[0] <= share <= NULL_SHARES[1] and worst <= MAX_METRIC_SHARE
    console.print(
        f"{left_out} of {pluralize(intervals, 'interval')} leave out 0: {share:.1%}, "
        f"{NULL_SHARES[0]:.0%} to {NULL_SHARES[1]:.0%} wanted; for a single metric up to {worst:.0%}, "
        f"at most {MAX_METRIC_SHARE:.0%} wanted: {_verdict(is_met)}."
    )
    return _print_claims(claims_of_null(summaries), console) and is_met


def _print_claims(counts: Sequence[ClaimCounts], console: Console) -> bool:
    table = _table("with repeat in the place of offload", "sentences", "that claim a difference")
    for each in counts:
        table.add_row(each.metric, str(each.sentences), str(each.claimed))
    console.print(table)
    sentences, claimed = sum(each.sentences for each in counts), sum(each.claimed for each in counts)
    is_met = claimed <= MAX_FALSE_CLAIMS * sentences
    console.print(
        f"{claimed} of {pluralize(sentences, 'sentence')} claim a difference: "
        f"{claimed / max(sentences, 1):.1%}, at most {MAX_FALSE_CLAIMS:.0%} wanted: {_verdict(is_met)}."
    )
    return is_met


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def print_default(summaries: Sequence[Summary], console: Console) -> bool:
    loads = sorted({load for summary in summaries for load in summary.loads})
    columns = [(load, op) for load in loads for op in TRANSFERS]
    table = _table("run", "capacity, steps/s", *(f"{op}, load {load}" for load, op in columns))
    for number, summary in enumerate(summaries, start=1):
        cells = [_cell(_offload_difference(summary, *column)) for column in columns]
        table.add_row(str(number), f"{summary.capacity.get(BASELINE.name, 0):,.0f}", *cells)
    console.print(table)
    verdicts = []
    for unit, relative in (("µs", False), ("% of baseline", True)):
        compared_pairs = list(pairs(summaries, relative))
        agree = sum(pair.agrees for pair in compared_pairs)
        verdicts.append(bool(compared_pairs) and agree >= MIN_AGREEING * len(compared_pairs))
        console.print(
            f"offload - baseline in {unit}: {agree} of {pluralize(len(compared_pairs), 'comparison')} differ "
            "by at most √(h₁² + h₂²), "
            f"at least {math.ceil(MIN_AGREEING * len(compared_pairs))} wanted: {_verdict(verdicts[-1])}."
        )
    return _print_missing(summaries, console) and verdicts[0]


def _print_missing(summaries: Sequence[Summary], console: Console) -> bool:
    missing_by_run = {number: missing_claims(summary) for number, summary in enumerate(summaries, start=1)}
    without_claim = [f"run {number}: {', '.join(names)}" for number, names in missing_by_run.items() if names]
    text = f" (not {'; '.join(without_claim)})" if without_claim else ""
    labels = " and ".join(in_sentences(metric.label) for metric in ALWAYS_CLAIMED)
    console.print(
        f"{len(missing_by_run) - len(without_claim)} of {pluralize(len(missing_by_run), 'run')} claim that "
        f"{labels} are less with offload{text}, all wanted: "
        f"{_verdict(not without_claim)}."
    )
    return not without_claim


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _tally_cell(tally: Tally | None) -> str:
    return "–" if tally is None else f"{tally.left_out} of {tally.intervals}"


def _cell(comparison: Comparison | None) -> str:
    if comparison is None or comparison.ratio is None:
        return "–"
    text = f"{comparison.difference:+,.0f} µs, {comparison.ratio:+.1%}"
    return text if comparison.half_width is None else f"{text} ±{comparison.half_width:.1%}"


def make_runs(number: int, settings: Mapping[str, object], folder: Path, with_seeds: bool) -> Iterator[Path]:
    """Make runs one after the other, and yield their folders; end the process with the first that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "run.toml"
    values: dict[str, object] = {**settings, "runs": str(folder)}
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    for seed in range(1, number + 1):
        seeds = [f"SEED={seed}"] if with_seeds else []
        command = [sys.executable, "-m", "hotline.cli", "run", f"CONFIG={config}", *seeds]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise click.ClickException(f"run {seed} of {number} failed; see above, and {folder}")
        yield (folder / "latest").resolve()


def read(run: Path) -> Summary:
    """Return the summary of a run folder; raise `ClickException` if it cannot be read."""
    try:
        return read_summary(run)
    except AnalysisError as error:
        raise click.ClickException(str(error)) from None


@click.command()
@click.argument("what", type=click.Choice(["null", "default"]))
@click.argument("runs", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--number", type=click.IntRange(min=1), help="Number of new runs: 20 for null, else 5.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of new runs; by default temporary.")
def main(what: str, runs: tuple[Path, ...], number: int | None, folder: Path | None) -> None:
    """Compare RUNS, or new runs, by the criteria of WHAT; exit with code 1 if they are not met."""
    console = Console(width=130)
    is_null = what == "null"
    if not runs:
        folder = folder or Path(tempfile.mkdtemp(prefix=f"hotline-{what}-"))
        number = number or (20 if is_null else 5)
        runs = tuple(make_runs(number, SHORT if is_null else {}, folder, with_seeds=is_null))
        console.print(f"runs in {folder}")
    summaries = [read(run) for run in runs]
    for run, summary in zip(runs, summaries, strict=True):
        console.print(f"{run.name}: {_caption(summary)}", highlight=False)
    is_met = (print_null if is_null else print_default)(summaries, console)
    sys.exit(not is_met)


def _caption(summary: Summary) -> str:
    rounds = max(load.rounds for load in summary.loads.values())
    repeated = sum(load.blocks_repeated for load in summary.loads.values())
    disturbed = sum(load.blocks_disturbed for load in summary.loads.values())
    return (
        f"{pluralize(rounds, 'round')}, ended by {summary.ended_by}; "
        f"{pluralize(repeated, 'block')} run again, {disturbed} still disturbed"
    )


if __name__ == "__main__":
    main()
