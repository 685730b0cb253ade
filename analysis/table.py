"""The report on the terminal, legible at 100 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table

from analysis.facts import facts, without_intervals
from analysis.statistics import Comparison
from analysis.summary import ArmSummary, LoadSummary, Summary
from common.words import counted
from logs.columns import ARMS, BASELINE, CLASSES, METRICS, TRANSFERS
from protocol.arms import AGAIN

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
    DifferenceRow("ps_cpu_without_switch_us_per_step", "PS w/o switch", ",.0f"),
    DifferenceRow("ps_packets_per_step", "packets to PS/step", ",.1f"),
    DifferenceRow("ps_bytes_per_step", "bytes to PS/step", ",.0f"),
    DifferenceRow("rpcs_per_step", "RPCs a step", ",.1f"),
    DifferenceRow("worker_cpu_us_per_step", "worker CPU, µs/step", ",.0f"),
    DifferenceRow("worker_cpu_without_switch_us_per_step", "worker w/o switch", ",.0f"),
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


def _differences(load: LoadSummary) -> Table:
    table = _table()
    for row in DIFFERENCE_ROWS:
        found = {arm: load.differences.get(arm, {}).get(row.metric) for arm in ARMS if arm != BASELINE}
        known = [each for each in found.values() if each is not None]
        if known:
            baseline = _baseline(known[0].baseline, row.format)
            table.add_row(row.title, baseline, *(_cell(arm, each) for arm, each in found.items()))
    return table


def _baseline(value: float, form: str) -> str:
    return format(value, form) if value < 1e6 else f"{value / 1e6:,.2f} M"


def _table() -> Table:
    # Two blanks between columns: five arms leave no room for more.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for arm in ARMS:
        table.add_column(arm, justify="right", no_wrap=True)
    return table


def _cell(arm: str, found: Comparison | None) -> str:
    """A difference in %; of arm *again* the interval alone, which is what noise looks like."""
    if found is None or found.ratio is None:
        return "–"
    if found.ratio_low is None or found.ratio_high is None:
        return _percent(found.ratio)
    text = f"\\[{_percent(found.ratio_low)}, {_percent(found.ratio_high)}]"
    if arm != AGAIN.name:
        text = f"{_percent(found.ratio)} {text}"
    return text if found.ratio_low <= 0 <= found.ratio_high else f"[bold]{text}[/bold]"


def _percent(ratio: float) -> str:
    """In %; what is more than ten times as much, as a multiple."""
    share = 100 * ratio
    if share >= 1000:
        return f"×{1 + ratio:.0f}"
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
