"""The report on the terminal, legible at 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table

from analysis.statistics import MIN_ROUNDS, Comparison
from analysis.summary import ArmSummary, LoadSummary, Summary
from common.words import counted
from logs.columns import ARMS, BASELINE, CLASSES, METRICS, TRANSFERS

WIDTH = 100


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A metric of the difference table: its name in `differences`, its title and its number format."""

    metric: str
    title: str
    format: str


DIFFERENCE_ROWS = (
    *(
        DifferenceRow(f"{op}_{q}", f"{op} {q}, µs", ",.0f")
        for op in TRANSFERS
        for q in ("mean", "p50", "p95", "p99")
    ),
    DifferenceRow("step_mean", "step mean, µs", ",.0f"),
    DifferenceRow("rpc_mean", "RPC mean, µs", ",.0f"),
    DifferenceRow("ps_proc_cpu_us_per_step", "PS_proc CPU, µs/step", ",.0f"),
    DifferenceRow("ps_cpu_us_per_step", "PS CPU, µs/step", ",.0f"),
    DifferenceRow("ps_packets_per_step", "packets to PS/step", ",.1f"),
    DifferenceRow("ps_bytes_per_step", "bytes to PS/step", ",.0f"),
    DifferenceRow("rpcs_per_step", "RPCs a step", ",.1f"),
    DifferenceRow("worker_cpu_us_per_step", "worker CPU, µs/step", ",.0f"),
    DifferenceRow("loss", "mean log loss", ".4f"),
)


def render(summary: Summary) -> RenderableType:
    """Tables and headline facts of a run."""
    parts: list[RenderableType] = []
    for name, load in summary.loads.items():
        rate = f"{load.offered_rate:,.1f} steps/s, {counted(load.rounds, 'round')}"
        title = f"[i]Load {name}: {rate}; differences to {BASELINE} in % \\[95 % interval][/i]"
        parts += [title, _differences(load), *without_intervals(load), ""]
    parts += ["[i]All loads: RPCs and their latency, means in µs[/i]", _breakdown(summary), ""]
    parts += list(facts(summary))
    return Group(*parts)


def print_summary(summary: Summary, file: IO[str] | None = None) -> None:
    """Print the report to a file (default: standard output), at most 100 columns wide."""
    console = Console(file=file)
    if not console.is_terminal or console.width > WIDTH:
        console.width = WIDTH
    console.print(render(summary))


def facts(summary: Summary) -> Iterator[str]:
    """The headline facts, one sentence each."""
    share, updates = summary.hot_update_share, summary.updates
    if share is not None:
        yield f"The switch served {share:.1%} of the pushed lanes in arm hot."
    yield (
        f"Updates: {counted(updates.sent, 'lane')} sent, {updates.applied:,} applied, {updates.lost:,} lost, "
        f"{updates.unknown:,} unknown; {counted(updates.mismatched_keys, 'key differs', 'keys differ')}; "
        f"{counted(summary.overflows, 'overflow')}."
    )
    if summary.changed_arms:
        arms = ", ".join(summary.changed_arms)
        yield f"WARNING: offload or proxy of {arms} was changed meanwhile; these numbers are not of that arm."
    if summary.last_loss is not None and summary.chance_loss:
        yield _learning(summary.last_loss, summary.chance_loss)
    empty = summary.empty_rpc_latency_us
    if empty.p50 is not None and empty.p99 is not None:
        yield f"An empty RPC, through switch and PS: p50 {empty.p50:,.0f} µs, p99 {empty.p99:,.0f} µs."
    for name, load in summary.loads.items():
        if load.rounds_fallen_behind:
            yield (
                f"At load {name} the load generator fell behind in {load.rounds_fallen_behind} "
                f"of {counted(load.rounds, 'round')}."
            )


def without_intervals(load: LoadSummary) -> Iterator[str]:
    """Why a load's differences have no intervals, where they have none."""
    comparisons = [each for metrics in load.differences.values() for each in metrics.values()]
    if comparisons and all(each.low is None for each in comparisons):
        why = f"they take {MIN_ROUNDS} complete rounds; from fewer they would be too narrow"
        yield f"No 95 % intervals: {why}."


def _learning(loss: float, chance: float) -> str:
    """What the model has learned; `chance` is above 0, so that there was something to learn."""
    told = f"Mean log loss of the last round: {loss:.4f}; by the labels' frequency alone: {chance:.4f}."
    if loss < chance:
        return told
    return f"WARNING: the model has learned nothing. {told} Try another learning_rate, or more rounds."


def _differences(load: LoadSummary) -> Table:
    table = _table()
    for row in DIFFERENCE_ROWS:
        found = [metrics[row.metric] for metrics in load.differences.values() if row.metric in metrics]
        if found:
            baseline = format(found[0].baseline, row.format)
            table.add_row(row.title, baseline, *(_relative(each) for each in found))
    return table


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    for arm in ARMS:
        table.add_column(arm, justify="right", no_wrap=True)
    return table


def _relative(found: Comparison) -> str:
    if found.ratio is None:
        return "–"
    if found.ratio_low is None or found.ratio_high is None:
        return _percent(found.ratio)
    text = f"{_percent(found.ratio)} \\[{_percent(found.ratio_low)}, {_percent(found.ratio_high)}]"
    return text if found.ratio_low <= 0 <= found.ratio_high else f"[bold]{text}[/bold]"


def _percent(ratio: float) -> str:
    share = 100 * ratio
    return f"{share:+.1f}" if abs(share) < 10 else f"{share:+.0f}"


def _breakdown(summary: Summary) -> Table:
    table = _table()
    arms = [summary.arms[arm] for arm in ARMS]
    table.add_row("steps", *(f"{arm.steps:,}" for arm in arms))
    table.add_row("RPCs a step", *(f"{arm.rpcs_per_step:,.1f}" for arm in arms))
    for name in CLASSES:
        table.add_row(f"  {name.replace('_', '-')} × latency", *(_of_class(arm, name) for arm in arms))
    for metric in (*METRICS, "switch"):
        table.add_row(metric, *(_number(arm.metrics_us[metric], ",.1f") for arm in arms))
    return table


def _of_class(arm: ArmSummary, name: str) -> str:
    return f"{arm.rpcs_per_step_by_class[name]:,.1f} × {_number(arm.rpc_latency_by_class_us[name].mean)}"


def _number(value: float | None, form: str = ",.0f") -> str:
    return "–" if value is None else format(value, form)
