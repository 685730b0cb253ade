from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.page.build import Page
from analysis.page.plots import plot
from analysis.page.study import text_table, write_report
from analysis.wording import AnswerText, ReportTable, Span
from hotline_policies.figures import figures_of, shown_size
from hotline_policies.findings import findings, headline
from hotline_policies.results import WRITES_PER_MOVE, Study
from hotline_policies.rules import BY_NAME, POLICIES, spec_named
from hotline_policies.table import cells, columns, printed_sizes, write_table

_HOW_TO_READ = (
    "A policy decides which keys the switch holds. All policies replay the same accesses in the same order: "
    "by iteration, then worker, then key. An access hits if its key is in the switch. A key enters the "
    "switch together with an access to it, which carries its value; a key that a policy selects at the end "
    "of a period therefore enters at its next access.",
    "Fixed sets are selected from the first part of the log. All shares, moves and packets are counted in "
    "the rest. The other policies replay the first part as a warm-up.",
    "Packets are counted on sampled mini-batches, packed as the workers pack them, with the keys that the "
    "policy has in the switch at that step.",
    f"A move is an install or an eviction, and takes {WRITES_PER_MOVE} table writes. The control plane "
    "follows a policy if it can do the policy's table writes in time, at the given rate of steps. Moves "
    "that the switch makes itself take no table writes.",
)
_GLOSSARY = (
    ("step", "one mini-batch of one worker; its keys are distinct"),
    ("period", "the time after which sets are selected again, and hashed slots are cleared"),
    (
        "steps to follow",
        "steps from the shift of a generated log until a share is back at 95 % of its former value; over N: "
        "not within the N remaining steps of the log",
    ),
    ("half-life", "the time in which the top k keys lose half of their lead in updates over random keys"),
    ("bypass", "a key whose next access is later than that of every key in the switch is not admitted"),
    (
        "Pan et al.",
        "Pan et al., Dissecting the Communication Latency in Distributed Deep Sparse Learning, IMC 2020",
    ),
)


def write_page(study: Study, folder: Path) -> Path:
    figures = figures_of(study)
    specs = (*POLICIES, *(spec_named(name) for name in study.by_policy if name not in BY_NAME))
    page = Page(
        title="What to keep in the switch",
        plots=[plot(figure) for figure in figures],
        answers=[answer_of(study)],
        provenance=_provenance(study),
        tables=[("Policies", tables_of(study))],
        how_to_read=_HOW_TO_READ,
        glossary=(*((spec.title, spec.description.replace("`", "")) for spec in specs), *_GLOSSARY),
    )
    report = write_report(page, figures, folder)
    write_table(study, folder)
    return report


def answer_of(study: Study) -> AnswerText:
    return AnswerText(
        title=f"{study.facts.name}, with {shown_size(study):,} keys in the switch",
        headline=headline(study),
        is_trusted=True,  # a replay has no lost updates, which make a run's answer doubtful
        sentences=tuple((Span(text=text),) for text in findings(study)),
    )


def tables_of(study: Study) -> list[ReportTable]:
    size = shown_size(study)
    rows = [(each.title, *cells(study, each)) for each in study.at(size).values()]
    table = text_table(f"With {size:,} keys in the switch", ("policy", *columns(study)), rows)
    return [table, *_shares(study)]


def _provenance(study: Study) -> list[tuple[str, str]]:
    facts, settings = study.facts, study.settings
    pulls = f", and {facts.pulls:,} pulls" if facts.pulls else ""
    return [
        ("log", facts.name),
        ("scored", f"{facts.updates:,} updates{pulls} in {facts.scored_steps:,} of {facts.steps:,} steps"),
        ("keys", f"{facts.keys:,}"),
        ("memory", f"{shown_size(study):,} keys name {study.memory_text(shown_size(study))}"),
        ("half-life", "no drift detected" if facts.half_life is None else f"{facts.half_life:,.0f} steps"),
        ("rate", f"{settings.rate:,g} steps/s of all workers"),
        ("period", f"{facts.period:,} steps"),
        ("control plane", f"{settings.writes_per_s:,.0f} table writes/s"),
        ("servers", f"{settings.servers:,}; {facts.without.rpcs:,.1f} RPCs an operation without offload"),
    ]


def _shares(study: Study) -> Iterator[ReportTable]:
    sizes = printed_sizes(study)
    if len(sizes) == 1:
        return
    rows = [
        (outcomes[0].title, *(f"{each.share:.1%}" for each in outcomes if each.size in sizes))
        for outcomes in study.by_policy.values()
    ]
    names = ("policy", *(f"{size:,} keys" for size in sizes))
    yield text_table("Share of the updates that hit, by the number of keys in the switch", names, rows)
