"""Tables of the page: cells are sentences, whose spans tell better from worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.claims import claims, rows_of
from analysis.facts import without_intervals
from analysis.metrics import shown_in
from analysis.statistics import Comparison
from analysis.summary import Summary
from analysis.wording import Sentence, Span, Tone, difference, plain, text_of
from foundation.designs.arms import compared, ordered
from foundation.logs.columns import load_title
from foundation.words import capital, counted

Row = Sequence[str | Sentence]
"""A title, and cells."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def titles(self) -> list[str]:
        """Of the rows."""
        return [row[0] for row in self.texts()]

    def texts(self) -> list[list[str]]:
        """The rows without colours."""
        return [[cell if isinstance(cell, str) else text_of(cell) for cell in row] for row in self.rows]


def differences(summary: Summary, name: str) -> Iterator[Table]:
    """For each baseline, what others have of each metric at a load: in % of it, as on the terminal."""
    load, has_others = summary.loads[name], len(summary.run_arms) > 1
    rate = "" if load.offered_rate is None else f"{load.offered_rate:,.1f} steps/s offered, "
    title = f"{capital(load_title(name))}: {rate}{counted(load.rounds, 'round')}"
    for baseline, arms in (compared(load.differences) or {summary.baseline.name: []}).items():
        rows: list[Row] = [
            (metric.title, plain(metric.written(value)), *(_cell(found, tone) for _, found, tone in cells))
            for metric, value, cells in rows_of(summary, name, arms)
        ]
        head = ("", baseline, *(arm.name for arm in arms))
        notes = list(without_intervals(load)) if rows else ["No round is complete."]
        yield Table(f"{title}; in % of {baseline}" if has_others else title, head, rows, notes)


def _cell(found: Comparison | None, tone: Tone) -> Sentence:
    return plain("–") if found is None or found.ratio is None else (difference(found, tone),)


def durability(summary: Summary) -> Table:
    """What it costs each arm that the servers are durable."""
    arms = [arm.name for arm in summary.run_arms]
    rows: list[Row] = [
        (metric.title, *(plain(metric.written(summary.arms[arm].of(metric))) for arm in arms))
        for metric in shown_in("durability")
    ]
    note = (
        "A burst of RPCs is kept by one commit before any of them is answered; the wait is part of their "
        "PS_proc. Those behind them wait as long in PS_queue. What durability costs a pull or a push is told "
        "by a run without it: hotline compare."
    )
    return Table(f"Commits of all parameter servers, with fsync {summary.durable}", ("", *arms), rows, [note])


def losses(summary: Summary, name: str) -> Iterator[Sentence]:
    """One for each arm that aggregates: metrics for which it is claimed to be worse than its baseline."""
    for arm in (arm.name for arm in ordered(summary.loads[name].differences) if arm.settings.aggregates):
        found = claims(summary, name, arm)
        of_arm = [found[metric.name] for metric in shown_in("differences") if metric.name in found]
        worse = [claim for claim in of_arm if claim.tone == "worse"]
        if worse:
            spans = [Span(text=f"Load {name}, {arm}: ")]
            for number, claim in enumerate(worse):
                before = f"{', ' if number else ''}{claim.metric.spoken} "
                spans += [Span(text=before), difference(claim.found, claim.tone)]
            yield (*spans, Span(text="."))
