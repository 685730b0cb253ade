from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from analysis.caveats import facts
from analysis.claims import answer, claims, metric_rows, select_claims
from analysis.dedicated_switch import DedicatedSwitchPrediction, SimulationCheck, predict
from analysis.figures.all import Progress, figures, no_progress
from analysis.figures.figure_data import Source, source_of_run
from analysis.figures.model import Figure
from analysis.forest import Effect, ForestRow, forest
from analysis.metrics import Tone, metrics_of_table
from analysis.page.build import ABSENCE, Page, Result, ResultColumns, build, drawings
from analysis.page.plots import plot
from analysis.paper import column_titles, findings
from analysis.record import RunRecord
from analysis.sentences import answers as sentences
from analysis.sentences import page as page_sentences
from analysis.sentences import table_titles
from analysis.sentences.differences import row_reasons
from analysis.sentences.facts import all_facts
from analysis.sentences.machines import machine_notes, where_measured
from analysis.sentences.networks import network_notes
from analysis.sentences.page import caveats, glossary, how_to_read
from analysis.statistics import Comparison
from analysis.summary import LoadSummary, Summary
from analysis.verdict import Claim
from analysis.wording import (
    AnswerText,
    ReportTable,
    Row,
    Sentence,
    difference,
    in_sentences,
    plain,
    sentence_text,
)
from foundation.designs.arms import arms_by_reference, arms_in_order
from foundation.designs.interface import Arm
from foundation.logs.parts import write_text
from foundation.optional import MissingPackage

log = logging.getLogger(__name__)
RESULTS = "summary.json"
"""Name of the file with a run's results."""


def answers(summary: Summary) -> list[AnswerText]:
    measured = measured_answer(summary)
    predicted = predict(summary) if summary.is_sound else None
    if predicted is None:
        return [measured]
    dedicated = AnswerText(
        title=sentences.dedicated_title(predicted),
        headline=" ".join(_dedicated_verdict(summary, predicted)),
        is_trusted=predicted.reservations.verdict is None,
        sentences=tuple(sentences.dedicated_sentences(predicted, summary)),
    )
    return [dedicated, measured]


def measured_answer(summary: Summary) -> AnswerText:
    result_answer = answer(summary)
    lines = list(sentences.answer_sentences(result_answer, summary, facts(summary)))
    if not summary.is_sound:
        headline = sentences.broken(summary)
    elif result_answer.lead is None and lines:
        headline = sentence_text(lines.pop(0))
    else:
        headline = sentences.headline(result_answer, summary)
    return AnswerText(
        title=sentences.title(result_answer, summary),
        headline=headline,
        is_trusted=summary.is_sound,
        sentences=tuple(lines),
    )


def result(record: RunRecord, summary: Summary) -> Result:
    answer_texts, predicted = answers(summary), predict(summary) if summary.is_sound else None
    rows = forest(summary, predicted)
    errors = [] if predicted is None else _prediction_errors(summary, predicted)
    busy = summary.loads[answer(summary).load].busy
    notes = [
        *sentences.first_screen_notes(
            answer(summary), summary, where_measured(record), bool(rows), predicted is not None
        ),
        *machine_notes(record),
        *network_notes(record),
    ]
    return Result(
        title=sentences.result_title(record),
        verdict=answer_texts[0].headline if predicted is None else _dedicated_verdict(summary, predicted)[0],
        figures=() if predicted is None else _dedicated_verdict(summary, predicted)[1:],
        is_trusted=answer_texts[0].is_trusted,
        rows=rows,
        sentences=() if rows else answer_texts[0].sentences,
        warnings=[plain(text) for text in sentences.warnings(errors, summary, facts(summary))],
        notes=notes,
        busy="" if busy is None else sentences.busy(busy),
        columns=_columns(summary, predicted, where_measured(record)),
        row_reasons=row_reasons(
            _groups_by_reason(rows, _columns(summary, predicted, where_measured(record)))
        ),
    )


def _dedicated_verdict(summary: Summary, predicted: DedicatedSwitchPrediction) -> list[str]:
    """Return the verdict for a dedicated switch, and a sentence for each column with its figures, if any."""
    return sentences.dedicated_headline(predicted, answer(summary).claims, summary)


def _columns(summary: Summary, predicted: DedicatedSwitchPrediction | None, measured: str) -> ResultColumns:
    if summary.is_simulated:
        return ResultColumns("", "simulated")
    return ResultColumns("" if predicted is None else "dedicated switch", measured)


def _groups_by_reason(
    rows: Sequence[ForestRow], columns: ResultColumns
) -> list[tuple[str, list[str], Effect]]:
    """Return the rows that are not claimed: (column, titles of rows, an effect of them) for each reason."""
    groups: dict[tuple[object, ...], tuple[str, list[str], Effect]] = {}
    for column, effects in (
        (columns.dedicated, [(row.title, row.dedicated) for row in rows]),
        (columns.measured, [(row.title, row.measured) for row in rows]),
    ):
        for title, effect in effects:
            if effect is not None and not effect.verdict.sign:
                group = (column if columns.dedicated else "", list[str](), effect)
                groups.setdefault((column, *effect.reason), group)[1].append(title)
    return list(groups.values())


def _prediction_errors(summary: Summary, predicted: DedicatedSwitchPrediction) -> list[SimulationCheck]:
    measured = answer(summary).claims
    return [
        miss
        for miss in predicted.misses
        if miss.metric.name in measured and not measured[miss.metric.name].is_noise
    ]


def fact_sentences(summary: Summary) -> list[str]:
    return all_facts(summary, facts(summary))


def write_report(run: Path, record: RunRecord, summary: Summary, progress: Progress = no_progress) -> Path:
    """Write a run's results and its page; return the page, or the results where no page can be made."""
    answer_texts = answers(summary)
    page = build(_page(run, record, summary, answer_texts, progress)) if ABSENCE is None else None
    _write_results(run / RESULTS, summary, answer_texts)
    if page is None:
        log.warning(
            "no report.html: it needs jinja2 and plotly, which cannot be imported (%s); with them, "
            "`./hotline report %s` writes it",
            ABSENCE,
            run,
        )
        return run / RESULTS
    report = run / "report.html"
    write_text(report, page)
    return report


def _write_results(file: Path, summary: Summary, answer_texts: Sequence[AnswerText]) -> None:
    answer_fields = [
        answer_text.model_dump() | {"sentences": answer_text.texts()} for answer_text in answer_texts
    ]
    results = summary.model_dump(mode="json") | {"answers": answer_fields}
    write_text(file, json.dumps(results, indent=2) + "\n")


def _page(
    run: Path, record: RunRecord, summary: Summary, answer_texts: Sequence[AnswerText], progress: Progress
) -> Page:
    source = source_of_run(run)
    drawn_figures = list(figures([source], progress))
    run_result, is_simulated = result(record, summary), record.simulation is not None
    return Page(
        title=run_result.title,
        subtitle=page_sentences.page_title(run.name, record),
        first_screen=run_result,
        answers=answer_texts,
        provenance=provenance_rows(record, summary),
        drawings=drawings(summary, record),
        paper=[paper_table(source, drawn_figures, summary)],
        tables=[("What durability costs", [durability_table(summary)])] if summary.durable else (),
        reference=summary.reference.name,
        differences=[table for name in summary.loads for table in difference_tables(summary, name)],
        worse_metrics=[line for name in summary.loads for line in worse_metrics(summary, name)],
        nothing_worse=table_titles.nothing_worse(summary),
        facts=[*fact_sentences(summary), *caveats(is_simulated, bool(record.machines))],
        how_to_read=how_to_read(summary, is_simulated),
        glossary=glossary(summary.run_arms),
        plots=[plot(figure) for figure in drawn_figures],
        record=record.model_dump_json(indent=2, exclude={"blocks", "repeated_blocks", "recorded_design"}),
    )


def write_cluster_report(source: Source, report: Path, progress: Progress = no_progress) -> ReportTable:
    if ABSENCE is not None:
        raise MissingPackage(
            f"{report}: a page needs jinja2 and plotly, which cannot be imported ({ABSENCE})"
        )
    drawn_figures = list(figures([source], progress))
    comparison = paper_table(source, drawn_figures, None)
    page = Page(
        title=f"RPCs of {source.name}",
        provenance=_log_summary(source),
        paper=[comparison],
        plots=[plot(figure) for figure in drawn_figures],
        how_to_read=[page_sentences.HOW_TO_READ_LOGS],
    )
    write_text(report, build(page))
    return comparison


def paper_table(source: Source, drawn_figures: Sequence[Figure], summary: Summary | None) -> ReportTable:
    paper_findings = findings(source.arms, drawn_figures, summary)
    head = ("", "paper", *column_titles(source.arms).values())
    rows: list[Row] = [
        (finding.quantity, plain(finding.paper), *map(plain, finding.measured)) for finding in paper_findings
    ]
    return ReportTable(f"What Pan et al. found, and what the logs of {source.name} say", head, rows)


def provenance_rows(record: RunRecord, summary: Summary) -> list[tuple[str, str]]:
    return page_sentences.provenance_rows(record, summary, _program_us_per_frame(record))


def _log_summary(source: Source) -> list[tuple[str, str]]:
    totals = source.rpc.select(
        rows=pl.len(),
        workers=pl.col("worker").n_unique(),
        servers=pl.col("ps").n_unique(),
        seconds=(pl.col("t_send_us").max() - pl.col("t_send_us").min()) / 1e6,
    )
    return page_sentences.what_was_logged(
        page_sentences.LoggedTotals(**totals.collect(engine="streaming").row(0, named=True))
    )


def _program_us_per_frame(record: RunRecord) -> float | None:
    ports = (record.switch or {}).get("ports", {}).values()
    frames = sum(port["rx"] - port["rx_dropped"] for port in ports)
    ns = sum(port.get("program_ns", 0) for port in ports)
    return ns / frames / 1e3 if ns and frames else None


def difference_tables(summary: Summary, name: str) -> Iterator[ReportTable]:
    load = summary.loads[name]
    for baseline, arms in arms_by_baseline(summary, load).items():
        rows: list[Row] = [
            (
                metric.title,
                plain(metric.format_value(value)),
                *(_difference_cell(change, tone) for _, change, tone in cells),
            )
            for metric, value, cells in metric_rows(summary, name, arms)
        ]
        head = ("", baseline, *(arm.name for arm in arms))
        title = table_titles.table_title(summary, name, baseline)
        yield ReportTable(
            title, head, rows, table_notes(summary, name, arms) if rows else [table_titles.NO_ROUND]
        )


def table_notes(summary: Summary, name: str, arms: Sequence[Arm]) -> list[str]:
    return table_titles.table_notes(summary.loads[name], unclaimed_rows(summary, name, arms))


def unclaimed_rows(
    summary: Summary, name: str, arms: Sequence[Arm]
) -> list[tuple[Claim, dict[str, list[str]]]]:
    """Return what is not claimed in a table: (a claim with the reason, arm -> labels of metrics)."""
    groups: dict[tuple[object, ...], tuple[Claim, dict[str, list[str]]]] = {}
    for arm in arms:
        # A repetition's difference is noise, and is never claimed.
        claims_of_arm = {} if arm.is_repetition else claims(summary, name, arm.name)
        for claim in select_claims(claims_of_arm, metrics_of_table("differences")):
            if not claim.sign:
                _, labels_by_arm = groups.setdefault(claim.reason, (claim, {}))
                labels_by_arm.setdefault(arm.name, []).append(in_sentences(claim.metric.label))
    return list(groups.values())


def arms_by_baseline(summary: Summary, load: LoadSummary) -> dict[str, list[Arm]]:
    return arms_by_reference(load.differences) or {summary.reference.name: []}


def _difference_cell(change: Comparison | None, tone: Tone) -> Sentence:
    return plain("–") if change is None or change.is_from_zero_to_zero else (difference(change, tone),)


def durability_table(summary: Summary) -> ReportTable:
    arms = [arm.name for arm in summary.run_arms]
    rows: list[Row] = [
        (metric.title, *(plain(metric.format_value(summary.arms[arm].value_of(metric))) for arm in arms))
        for metric in metrics_of_table("durability")
    ]
    title = table_titles.durability_title(summary)
    return ReportTable(title, ("", *arms), rows, [table_titles.DURABILITY_NOTE])


def worse_metrics(summary: Summary, load: str) -> Iterator[Sentence]:
    for arm in arms_in_order(summary.loads[load].differences):
        if arm.settings.aggregates or arm.is_lead:
            claims_of_arm = select_claims(claims(summary, load, arm.name), metrics_of_table("differences"))
            worse_claims = [claim for claim in claims_of_arm if claim.tone == "worse"]
            if worse_claims:
                yield table_titles.worse(load, arm.name, worse_claims)
