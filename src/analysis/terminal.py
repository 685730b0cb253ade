from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from analysis.claims import metric_rows
from analysis.fitted_table import FittedTable
from analysis.forest import Effect, ForestRow
from analysis.metrics import RPCS, Metric, Tone, metrics_of_table
from analysis.page.build import ResultColumns
from analysis.record import RunRecord
from analysis.report import answers, arms_by_baseline, fact_sentences, result, table_notes
from analysis.sentences.answers import busy as busy_sentence
from analysis.sentences.table_titles import terminal_title
from analysis.statistics import Comparison
from analysis.summary import ArmSummary, Summary
from analysis.wording import AnswerText, Sentence, change, in_sentences, interval
from foundation.designs.interface import Arm
from foundation.logs.columns import CLASSES

RESULT_WIDTH = 80
WIDTH = 100
# Blanks at top, right, bottom, left; wider gaps between the columns of arms do not fit.
_BULLET_PADDING = _CELL_PADDING = (0, 0, 0, 1)
_FOREST_CELL_PADDING = (0, 0, 0, 2)
_STYLES: Mapping[Tone, str] = {"": "", "better": "green", "worse": "red"}


def print_summary(summary: Summary, file: IO[str] | None = None) -> None:
    """Print the report to a file (default: standard output), at most 100 columns wide."""
    console = Console(file=file)
    if not console.is_terminal or console.width > WIDTH:
        console.width = WIDTH
    console.print(render(summary))


def render(summary: Summary) -> RenderableType:
    busy = next(iter(summary.loads.values())).busy
    parts: list[RenderableType] = []
    if busy is not None:
        parts += [Text(busy_sentence(busy), style="yellow"), ""]
    parts += [line for answer_text in answers(summary) for line in (*_render_answer(answer_text), "")]
    for name, load in summary.loads.items():
        for baseline, arms in arms_by_baseline(summary, load).items():
            title = terminal_title(summary, name, baseline)
            parts += [f"[i]{escape(title)}[/i]", _terminal_table(summary, name, baseline, arms)]
            parts += [*table_notes(summary, name, arms), ""]
    parts += ["[i]All loads: RPCs and their latency, means in µs[/i]", _breakdown(summary), ""]
    return Group(*parts, *fact_sentences(summary))


def _render_answer(answer_text: AnswerText) -> Iterator[RenderableType]:
    yield Text(f"{answer_text.title}:", style="italic")
    yield Text(answer_text.headline, style="bold" if answer_text.is_trusted else "bold red")
    for sentence in answer_text.sentences:
        yield Padding(Text("• ") + styled(sentence), _BULLET_PADDING)


def styled(sentence: Sentence) -> Text:
    return Text.assemble(*((span.text, _STYLES[span.tone]) for span in sentence))


def _terminal_table(summary: Summary, name: str, baseline: str, arms: Sequence[Arm]) -> FittedTable:
    table = FittedTable(["", baseline], [arm.name for arm in arms], _CELL_PADDING)
    for metric, value, cells in metric_rows(summary, name, arms):
        table.add_row(metric.title, _format_baseline(value, metric), *(_format_cell(*cell) for cell in cells))
    return table


def _format_baseline(value: float, metric: Metric) -> str:
    return metric.format_value(value) if value < 1e6 else f"{value / 1e6:,.2f} M"


def _format_cell(arm: Arm, comparison: Comparison | None, tone: Tone) -> str:
    if comparison is None or comparison.is_from_zero_to_zero:
        return "–"
    bounds = interval(comparison).replace("[", "\\[")
    if arm.is_repetition and bounds:
        return bounds
    text = f"{change(comparison)} {bounds}".rstrip()
    style = _STYLES[tone]
    return f"[{style}]{text}[/{style}]" if style else text


def _breakdown(summary: Summary) -> FittedTable:
    table = FittedTable([""], [arm.name for arm in summary.run_arms], _CELL_PADDING)
    arms = [summary.arms[arm.name] for arm in summary.run_arms]
    table.add_row("steps", *(f"{arm.steps:,}" for arm in arms))
    table.add_row(in_sentences(RPCS.label), *(RPCS.format_value(arm.value_of(RPCS)) for arm in arms))
    for name in CLASSES:
        if any(arm.rpcs_per_step_by_class.get(name) for arm in arms):
            table.add_row(
                f"  {name.replace('_', '-')} × latency", *(_format_class(arm, name) for arm in arms)
            )
    for metric in metrics_of_table("breakdown") + (metrics_of_table("durability") if summary.durable else []):
        if any(values := [arm.value_of(metric) for arm in arms]):
            table.add_row(metric.title, *map(metric.format_value, values))
    return table


def _format_class(arm: ArmSummary, name: str) -> str:
    mean = arm.rpc_latency_by_class_us[name].mean
    return f"{arm.rpcs_per_step_by_class[name]:,.1f} × {'–' if mean is None else f'{mean:,.0f}'}"


def print_result(record: RunRecord, summary: Summary, report: Path, file: IO[str] | None = None) -> None:
    """Print the result to a file (default: standard output) in 80 columns, the verdict last."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal or console.width > RESULT_WIDTH:
        console.width = RESULT_WIDTH
    run_result = result(record, summary)
    console.print(Text(run_result.title, style="bold"))
    if run_result.busy:
        console.print(Text(run_result.busy, style="yellow"))
    if run_result.rows:
        console.print(_forest_table(run_result.rows, run_result.columns), "")
    for reason in run_result.row_reasons:
        console.print(Text(f"~ {reason}", style="dim"))
    for sentence in run_result.sentences:
        console.print(Padding(Text("• ") + styled(sentence), _BULLET_PADDING))
    for note in run_result.notes:
        console.print(Text(note, style="dim"))
    for warning in run_result.warnings:
        console.print(Text("Note: ", style="yellow") + styled(warning))
    console.print(f"report: {report}", soft_wrap=True, markup=False)
    console.print(f"all numbers: ./hotline report {report.parent}", soft_wrap=True, markup=False)
    console.print(Text(run_result.verdict, style="bold" if run_result.is_trusted else "bold red"))
    for figures in run_result.figures:
        console.print(Text(figures))


def _forest_table(rows: Sequence[ForestRow], columns: ResultColumns) -> FittedTable:
    has_dedicated = bool(columns.dedicated)
    table = FittedTable(["change in %"], [*filter(None, columns)], _FOREST_CELL_PADDING)
    for row in rows:
        effects = (row.dedicated, row.measured) if has_dedicated else (row.measured,)
        table.add_row(row.title, *map(_format_effect, effects))
    return table


def _format_effect(effect: Effect | None) -> Text:
    if effect is None or effect.change is None:
        return Text("– ~")
    text = f"{change(effect.change)} {interval(effect.change)}".rstrip()
    return Text(f"{text} {' ' if effect.tone else '~'}", style=_STYLES[effect.tone])
