"""Reports of a run on the terminal, in `summary.json` and in `report.html`, and pages of clusters' logs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import polars as pl
from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as TerminalTable
from rich.text import Text

from analysis.claims import answer, claims, rows_of
from analysis.dedicated_switch import predict
from analysis.facts import facts
from analysis.figures.all import Progress, figures, no_progress
from analysis.figures.model import Figure
from analysis.figures.source import Source, of_run
from analysis.metrics import RPCS, Metric, Tone, shown_in
from analysis.page.build import Page, build, drawings, glossary
from analysis.page.plots import plot
from analysis.paper import columns, findings
from analysis.record import RunRecord
from analysis.statistics import Comparison
from analysis.summary import ArmSummary, LoadSummary, Summary
from analysis.wording import (
    AnswerText,
    Row,
    Sentence,
    Table,
    difference,
    in_sentences,
    interval,
    pairs,
    plain,
    sentences,
    signed,
    text_of,
    texts,
)
from foundation.designs.arms import compared, ordered
from foundation.designs.interface import Arm
from foundation.logs.columns import CLASSES
from foundation.logs.parts import write_text


def answers(summary: Summary) -> list[AnswerText]:
    """Return the answer for a dedicated switch, if it was simulated, and the measured answer."""
    measured = measured_answer(summary)
    predicted = predict(summary) if summary.is_sound else None
    if predicted is None:
        return [measured]
    dedicated = AnswerText(
        title=_line("dedicated_title", predicted, summary=summary),
        headline=_line("headline", predicted, summary=summary),
        is_trusted=True,
        sentences=tuple(sentences("dedicated_sentences", predicted, summary=summary)),
    )
    return [dedicated, measured]


def measured_answer(summary: Summary) -> AnswerText:
    """Return the measured answer, at the first load."""
    found, context = answer(summary), {"summary": summary, "run": facts(summary)}
    said = sentences("answer_sentences", found, **context)
    if not summary.is_sound:
        headline = _line("broken", **context)
    elif found.lead is None and said:
        headline = text_of(said.pop(0))
    else:
        headline = _line("headline", found, **context)
    return AnswerText(
        title=_line("title", found, **context),
        headline=headline,
        is_trusted=summary.is_sound,
        sentences=tuple(said),
    )


def _line(macro: str, *arguments: object, **context: object) -> str:
    [found] = texts(macro, *arguments, **context)
    return found


def fact_sentences(summary: Summary) -> list[str]:
    """Return the sentences about how the numbers were measured."""
    return texts("all_facts", summary=summary, run=facts(summary))


def write_report(run: Path, record: RunRecord, summary: Summary, progress: Progress = no_progress) -> Path:
    """Write `summary.json` and `report.html` into the run folder and return the path of the report."""
    found, source = answers(summary), of_run(run)
    drawn = list(figures([source], progress))
    is_virtual = record.simulation is not None
    page = Page(
        title=_line("page_title", run.name, record, _frame_us(record)),
        answers=found,
        ran=what_was_run(record, summary),
        drawings=drawings(summary, record),
        paper=[paper_table(source, drawn, summary)],
        tables=[("What durability costs", [durability(summary)])] if summary.durable else (),
        baseline=summary.baseline.name,
        differences=[table for name in summary.loads for table in differences(summary, name)],
        losses=[line for name in summary.loads for line in losses(summary, name)],
        no_losses=_line("nothing_worse", summary=summary),
        facts=[*fact_sentences(summary), *caveats(is_virtual)],
        reading=reading(summary, is_virtual),
        glossary=glossary(summary.run_arms),
        plots=[plot(figure) for figure in drawn],
        record=record.model_dump_json(indent=2, exclude={"blocks", "repeated_blocks"}),
    )
    results = summary.model_dump(mode="json") | {"answers": list(map(_as_json, found))}
    write_text(run / "summary.json", json.dumps(results, indent=2) + "\n")
    report = run / "report.html"
    write_text(report, build(page))
    return report


def _as_json(found: AnswerText) -> dict[str, object]:
    return found.model_dump(exclude={"sentences"}) | {"sentences": found.texts()}


def write_cluster_report(source: Source, report: Path, progress: Progress = no_progress) -> Table:
    """Write the page of a cluster's logs; return the table of its findings and the paper's."""
    drawn = list(figures([source], progress))
    paper = paper_table(source, drawn, None)
    page = Page(
        title=f"RPCs of {source.name}",
        ran=_logged(source),
        paper=[paper],
        plots=[plot(figure) for figure in drawn],
        reading=texts("how_to_read_logs"),
    )
    write_text(report, build(page))
    return paper


def paper_table(source: Source, drawn: Sequence[Figure], summary: Summary | None) -> Table:
    """Return a table of the paper's findings and those of a run, or of a cluster for `summary` None."""
    found = findings(source.arms, drawn, summary)
    head = ("", "paper", *columns(source.arms).values())
    rows: list[Row] = [(each.what, plain(each.paper), *map(plain, each.here)) for each in found]
    return Table(f"What [DDL] found, and what the logs of {source.name} say", head, rows)


def what_was_run(record: RunRecord, summary: Summary) -> list[tuple[str, str]]:
    """Return (name, value) pairs that describe the run."""
    return pairs("what_was_run", record, _frame_us(record), summary=summary)


def reading(summary: Summary, is_virtual: bool) -> list[str]:
    """Return how to read the differences of a run."""
    return texts("how_to_read", is_virtual, summary=summary)


def caveats(is_virtual: bool) -> list[str]:
    """Return what the results do not show."""
    return texts("caveats", is_virtual)


def _logged(source: Source) -> list[tuple[str, str]]:
    found = source.rpc.select(
        rows=pl.len(),
        workers=pl.col("worker").n_unique(),
        servers=pl.col("ps").n_unique(),
        seconds=(pl.col("t_send_us").max() - pl.col("t_send_us").min()) / 1e6,
    )
    return pairs("what_was_logged", found.collect(engine="streaming").row(0, named=True))


def _frame_us(record: RunRecord) -> float | None:
    """Return the CPU time that the program in the kernel took for a frame, in µs; None if it is unknown."""
    ports = (record.switch or {}).get("ports", {}).values()
    frames = sum(port["rx"] - port["rx_dropped"] for port in ports)
    ns = sum(port.get("program_ns", 0) for port in ports)
    return ns / frames / 1000 if ns and frames else None


def differences(summary: Summary, name: str) -> Iterator[Table]:
    """Yield a table for each baseline, with the changes of its arms in each metric at a load, in %."""
    load = summary.loads[name]
    for baseline, arms in _by_baseline(summary, load).items():
        rows: list[Row] = [
            (
                metric.title,
                plain(metric.format_value(value)),
                *(_cell(change, tone) for _, change, tone in cells),
            )
            for metric, value, cells in rows_of(summary, name, arms)
        ]
        head = ("", baseline, *(arm.name for arm in arms))
        title = _line("table_title", name, baseline, summary=summary)
        yield Table(title, head, rows, texts("table_notes" if rows else "no_round", load))


def _by_baseline(summary: Summary, load: LoadSummary) -> dict[str, list[Arm]]:
    return compared(load.differences) or {summary.baseline.name: []}


def _cell(change: Comparison | None, tone: Tone) -> Sentence:
    return plain("–") if change is None or change.ratio is None else (difference(change, tone),)


def durability(summary: Summary) -> Table:
    """Return a table of the costs of durable servers, by arm."""
    arms = [arm.name for arm in summary.run_arms]
    rows: list[Row] = [
        (metric.title, *(plain(metric.format_value(summary.arms[arm].of(metric))) for arm in arms))
        for metric in shown_in("durability")
    ]
    title = _line("durability_title", summary=summary)
    return Table(title, ("", *arms), rows, texts("durability_note"))


def losses(summary: Summary, name: str) -> Iterator[Sentence]:
    """Yield for each arm that aggregates the metrics by which it is claimed to be worse than its baseline."""
    for arm in (arm.name for arm in ordered(summary.loads[name].differences) if arm.settings.aggregates):
        found = claims(summary, name, arm)
        of_arm = [found[metric.name] for metric in shown_in("differences") if metric.name in found]
        worse = [claim for claim in of_arm if claim.tone == "worse"]
        if worse:
            yield from sentences("worse", name, arm, worse)


WIDTH = 100
"""Maximum width of the report on a terminal, in columns."""
_ARMS_PER_TABLE = 4
"""Arms per table, besides their baseline, that fit into this width."""
_STYLES: Mapping[Tone, str] = {"": "", "better": "green", "worse": "red"}


def print_summary(summary: Summary, file: IO[str] | None = None) -> None:
    """Print the report to a file (default: standard output), at most 100 columns wide."""
    console = Console(file=file)
    if not console.is_terminal or console.width > WIDTH:
        console.width = WIDTH
    console.print(render(summary))


def render(summary: Summary) -> RenderableType:
    """Return the answers, tables and facts of a run for the terminal."""
    parts: list[RenderableType] = [line for found in answers(summary) for line in (*_answer(found), "")]
    for name, load in summary.loads.items():
        for baseline, arms in _by_baseline(summary, load).items():
            title = _line("terminal_title", name, baseline, summary=summary)
            parts.append(f"[i]{escape(title)}[/i]")
            # At least one table, which without other arms has the baseline alone.
            for first in range(0, max(1, len(arms)), _ARMS_PER_TABLE):
                parts.append(_terminal_table(summary, name, baseline, arms[first : first + _ARMS_PER_TABLE]))
        parts += [*texts("table_notes", load), ""]
    parts += ["[i]All loads: RPCs and their latency, means in µs[/i]", _breakdown(summary), ""]
    return Group(*parts, *fact_sentences(summary))


def _answer(found: AnswerText) -> Iterator[RenderableType]:
    yield Text(f"{found.title}:", style="italic")
    yield Text(found.headline, style="bold" if found.is_trusted else "bold red")
    for sentence in found.sentences:
        yield Padding(Text("• ") + styled(sentence), (0, 0, 0, 1))


def styled(sentence: Sentence) -> Text:
    """Return a sentence with its tones in colours."""
    return Text.assemble(*((span.text, _STYLES[span.tone]) for span in sentence))


def _terminal_table(summary: Summary, name: str, baseline: str, arms: Sequence[Arm]) -> TerminalTable:
    table = _table([baseline, *(arm.name for arm in arms)])
    for metric, value, cells in rows_of(summary, name, arms):
        table.add_row(metric.title, _baseline(value, metric), *(_terminal_cell(*cell) for cell in cells))
    return table


def _baseline(value: float, metric: Metric) -> str:
    return metric.format_value(value) if value < 1e6 else f"{value / 1e6:,.2f} M"


def _table(arms: Sequence[str]) -> TerminalTable:
    # Two blanks between columns, as there is no room for more.
    table = TerminalTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for arm in arms:
        table.add_column(arm, justify="right", no_wrap=True)
    return table


def _terminal_cell(arm: Arm, found: Comparison | None, tone: Tone) -> str:
    """Format a difference in %; for a repetition only its interval, which shows the noise."""
    if found is None or found.ratio is None:
        return "–"
    bounds = interval(found).replace("[", "\\[")
    if arm.is_repetition and bounds:
        return bounds
    text = f"{signed(found.ratio)} {bounds}".rstrip()
    style = _STYLES[tone]
    return f"[{style}]{text}[/{style}]" if style else text


def _breakdown(summary: Summary) -> TerminalTable:
    """Return a table of means over all loads, without rows that are 0 in every arm."""
    table = _table([arm.name for arm in summary.run_arms])
    arms = [summary.arms[arm.name] for arm in summary.run_arms]
    table.add_row("steps", *(f"{arm.steps:,}" for arm in arms))
    table.add_row(in_sentences(RPCS.label), *(RPCS.format_value(arm.of(RPCS)) for arm in arms))
    for name in CLASSES:
        if any(arm.rpcs_per_step_by_class.get(name) for arm in arms):
            table.add_row(f"  {name.replace('_', '-')} × latency", *(_of_class(arm, name) for arm in arms))
    for metric in shown_in("breakdown") + (shown_in("durability") if summary.durable else []):
        if any(values := [arm.of(metric) for arm in arms]):
            table.add_row(metric.title, *map(metric.format_value, values))
    return table


def _of_class(arm: ArmSummary, name: str) -> str:
    mean = arm.rpc_latency_by_class_us[name].mean
    return f"{arm.rpcs_per_step_by_class[name]:,.1f} × {'–' if mean is None else f'{mean:,.0f}'}"
