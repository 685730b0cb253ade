"""The report on the terminal, legible at 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.answer import Answer
from analysis.claims import rows_of
from analysis.elsewhere import answers
from analysis.facts import facts, without_intervals
from analysis.metrics import RPCS, Metric, shown_in
from analysis.statistics import Comparison
from analysis.summary import ArmSummary, Summary
from analysis.wording import Sentence, Tone, interval, signed
from foundation.designs.arms import compared
from foundation.designs.interface import Arm
from foundation.logs.columns import CLASSES, load_title
from foundation.words import capital, counted

WIDTH = 100
_BESIDE = 4
"""Arms beside their baseline that this has room for."""


def render(summary: Summary) -> RenderableType:
    """Tables and headline facts of a run."""
    parts: list[RenderableType] = [line for told in answers(summary) for line in (*_answer(told), "")]
    for name, load in summary.loads.items():
        rate = "" if load.offered_rate is None else f"{load.offered_rate:,.1f} steps/s, "
        measured = f"{capital(load_title(name))}: {rate}{counted(load.rounds, 'round')}"
        for baseline, arms in (compared(load.differences) or {summary.baseline.name: []}).items():
            compared_with = f"; differences to {baseline} in % \\[95 % interval]"
            compared_with = compared_with if len(summary.run_arms) > 1 else ""
            title = f"[i]{measured}{compared_with}[/i]"
            parts += [title, *_differences(summary, name, baseline, arms)]
        parts += [*without_intervals(load), ""]
    parts += ["[i]All loads: RPCs and their latency, means in µs[/i]", _breakdown(summary), ""]
    parts += list(facts(summary))
    return Group(*parts)


def _answer(told: Answer) -> Iterator[RenderableType]:
    yield Text(f"{told.title}:", style="italic")
    yield Text(told.headline, style="bold" if told.is_trusted else "bold red")
    for sentence in told.sentences:
        yield Padding(Text("• ") + styled(sentence), (0, 0, 0, 1))


def styled(sentence: Sentence) -> Text:
    """With better and worse in colours."""
    return Text.assemble(*((span.text, _STYLES[span.tone]) for span in sentence))


_STYLES: Mapping[Tone, str] = {"": "", "better": "green", "worse": "red"}


def print_summary(summary: Summary, file: IO[str] | None = None) -> None:
    """Print the report to a file (default: standard output), at most 100 columns wide."""
    console = Console(file=file)
    if not console.is_terminal or console.width > WIDTH:
        console.width = WIDTH
    console.print(render(summary))


def _differences(summary: Summary, name: str, baseline: str, arms: Sequence[Arm]) -> Iterator[Table]:
    """One, or as many as arms take; without any arm of the baseline alone."""
    for first in range(0, max(1, len(arms)), _BESIDE):
        yield _beside(summary, name, baseline, arms[first : first + _BESIDE])


def _beside(summary: Summary, name: str, baseline: str, arms: Sequence[Arm]) -> Table:
    table = _table([baseline, *(arm.name for arm in arms)])
    for metric, value, cells in rows_of(summary, name, arms):
        table.add_row(metric.title, _baseline(value, metric), *(_cell(*cell) for cell in cells))
    return table


def _baseline(value: float, metric: Metric) -> str:
    return metric.written(value) if value < 1e6 else f"{value / 1e6:,.2f} M"


def _table(arms: Sequence[str]) -> Table:
    # Two blanks between columns: there is no room for more.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for arm in arms:
        table.add_column(arm, justify="right", no_wrap=True)
    return table


def _cell(arm: Arm, found: Comparison | None, tone: Tone) -> str:
    """A difference in %; of a repetition the interval alone, which is what noise looks like."""
    if found is None or found.ratio is None:
        return "–"
    bounds = interval(found).replace("[", "\\[")
    if arm.is_repetition and bounds:
        return bounds
    text = f"{signed(found.ratio)} {bounds}".rstrip()
    style = _STYLES[tone]
    return f"[{style}]{text}[/{style}]" if style else text


def _breakdown(summary: Summary) -> Table:
    """Without what is 0 in every arm."""
    table = _table([arm.name for arm in summary.run_arms])
    arms = [summary.arms[arm.name] for arm in summary.run_arms]
    table.add_row("steps", *(f"{arm.steps:,}" for arm in arms))
    table.add_row(RPCS.spoken, *(RPCS.written(arm.of(RPCS)) for arm in arms))
    for name in CLASSES:
        if any(arm.rpcs_per_step_by_class.get(name) for arm in arms):
            table.add_row(f"  {name.replace('_', '-')} × latency", *(_of_class(arm, name) for arm in arms))
    for metric in shown_in("breakdown") + (shown_in("durability") if summary.durable else []):
        if any(values := [arm.of(metric) for arm in arms]):
            table.add_row(metric.title, *map(metric.written, values))
    return table


def _of_class(arm: ArmSummary, name: str) -> str:
    mean = arm.rpc_latency_by_class_us[name].mean
    return f"{arm.rpcs_per_step_by_class[name]:,.1f} × {'–' if mean is None else f'{mean:,.0f}'}"
