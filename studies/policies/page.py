from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.page.build import Page
from analysis.page.plots import Plot, plot
from analysis.wording import AnswerText, Row, Span, Table, plain
from studies.policies.figures import figures_of, shown_size
from studies.policies.findings import findings, headline
from studies.policies.results import WRITES_PER_MOVE, Study
from studies.policies.rules import POLICIES
from studies.policies.table import cells, columns, printed_sizes, write_table
from studies.report import write_report

_READING = (
    "A policy says which keys a switch keeps. Each of them serves the same accesses in the same order: by "
    "iteration, then worker, then key. An access hits where its key is kept. A key is taken in with an "
    "access to it only, as its value travels with it; what a policy chooses at the end of a period waits for "
    "that.",
    "Fixed sets are chosen from the first part of the log. All shares, moves and packets are of the rest; "
    "the other policies go through the first part, too, and are warm.",
    "Packets are counted by packing sampled mini-batches as the workers do, with the keys in the switch that "
    "the policy had there when they came.",
    f"A move is an install or an eviction, and takes {WRITES_PER_MOVE} table writes. A control plane follows "
    "where it can write as many a second as the policy asks for at the given rate of steps. Where the switch "
    "makes the moves by itself, none is needed.",
)
_GLOSSARY = (
    *((spec.title, spec.description.replace("`", "")) for spec in POLICIES),
    ("step", "one mini-batch of one worker; its keys are distinct"),
    ("period", "the time at whose end sets are chosen, and hashed slots are cleared"),
    (
        "steps to follow",
        "behind a shift of a generated log, until a share is 95 % of what it was again; over N: not in the "
        "N steps that the log has left",
    ),
    ("half-life", "the time in which the top k of a moment lose half of their lead over random keys"),
    ("bypass", "a key that would be needed last is not taken in"),
    (
        "[DDL]",
        "Pan et al., Dissecting the Communication Latency in Distributed Deep Sparse Learning, IMC 2020",
    ),
)


def write_page(study: Study, folder: Path) -> Path:
    """Write report.html, table.csv, table.pdf and figures; return the report's path; raises `DataError`."""
    figures = figures_of(study)
    report = write_report(_page(study, [plot(figure) for figure in figures]), figures, folder)
    write_table(study, folder)
    return report


def _page(study: Study, plots: list[Plot]) -> Page:
    sentences = tuple((Span(text=text),) for text in findings(study))
    answer = AnswerText(
        title=f"{study.facts.name}, with {shown_size(study):,} keys in the switch",
        headline=headline(study),
        is_trusted=True,
        sentences=sentences,
    )
    return Page(
        title="What to keep in the switch",
        plots=plots,
        answers=[answer],
        ran=_ran(study),
        tables=[("Policies", [_table(study, shown_size(study)), *_shares(study)])],
        reading=_READING,
        glossary=_GLOSSARY,
    )


def _ran(study: Study) -> list[tuple[str, str]]:
    facts, settings = study.facts, study.settings
    pulls = f", and {facts.pulls:,} pulls" if facts.pulls else ""
    return [
        ("log", facts.name),
        ("scored", f"{facts.updates:,} updates{pulls} in {facts.scored_steps:,} of {facts.steps:,} steps"),
        ("keys", f"{facts.keys:,}"),
        ("half-life", "no drift is seen" if facts.half_life is None else f"{facts.half_life:,.0f} steps"),
        ("rate", f"{settings.rate:,g} steps/s of all workers"),
        ("period", f"{facts.period:,} steps"),
        ("control plane", f"{settings.writes_per_s:,.0f} table writes/s"),
        ("servers", f"{settings.servers:,}; {facts.without.rpcs:,.1f} RPCs an operation without offload"),
    ]


def _table(study: Study, size: int) -> Table:
    outcomes = study.at(size).values()
    rows: list[Row] = [(each.title, *(plain(cell) for cell in cells(study, each))) for each in outcomes]
    return Table(f"With {size:,} keys in the switch", ("policy", *columns(study)), rows)


def _shares(study: Study) -> Iterator[Table]:
    sizes = printed_sizes(study)
    if len(sizes) == 1:
        return
    rows: list[Row] = [
        (outcomes[0].title, *(plain(f"{each.share:.1%}") for each in outcomes if each.size in sizes))
        for outcomes in study.by_policy.values()
    ]
    names = ("policy", *(f"{size:,} keys" for size in sizes))
    yield Table("Share of the updates that hit, by the number of keys in the switch", names, rows)
