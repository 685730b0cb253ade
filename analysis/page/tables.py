"""Tables of the page: cells are sentences, whose spans tell better from worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.answer import Sentence, Span, difference, tone
from analysis.facts import without_intervals
from analysis.summary import LoadSummary, Summary
from analysis.table import DIFFERENCE_ROWS, DURABILITY_ROWS, DifferenceRow
from common.words import counted
from logs.columns import ARMS, BASELINE
from protocol.arms import AGAIN, MEASURED

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
        return [
            [cell if isinstance(cell, str) else "".join(span.text for span in cell) for cell in row]
            for row in self.rows
        ]


def plain(text: str) -> Sentence:
    """A cell without colours."""
    return (Span(text=text),)


def differences(name: str, load: LoadSummary) -> Table:
    """What each arm has of each metric: per cent of the baseline, as on the terminal."""
    arms = [arm for arm in ARMS if arm in load.differences]
    rows: list[Row] = [
        _row(row, load, arms) for row in DIFFERENCE_ROWS if arms and row.metric in load.differences[arms[0]]
    ]
    offered = f"{load.offered_rate:,.1f} steps/s offered, {counted(load.rounds, 'round')}"
    notes = list(without_intervals(load)) if rows else ["No round is complete."]
    return Table(f"Load {name}: {offered}; in % of {BASELINE}", ("", BASELINE, *arms), rows, notes)


def _row(row: DifferenceRow, load: LoadSummary, arms: Sequence[str]) -> Row:
    baseline = load.differences[arms[0]][row.metric].baseline
    cells: list[str | Sentence] = [row.title, plain(f"{baseline:{row.format}}")]
    for arm in arms:
        found = load.differences[arm].get(row.metric)
        known = found is not None and found.ratio is not None
        if found is None or not known:
            cells.append(plain("–"))
        else:
            span = difference(found)
            # What *again* differs by is noise, and neither better nor worse.
            cells.append(plain(span.text) if arm == AGAIN.name else (span,))
    return cells


def durability(summary: Summary) -> Table:
    """What it costs each arm that the servers are durable."""
    arms = [arm for arm in ARMS if summary.arms[arm].steps]
    rows: list[Row] = [
        (row.title, *(plain(row.of(summary.arms[arm])) for arm in arms)) for row in DURABILITY_ROWS
    ]
    note = (
        "A burst of RPCs is kept by one commit before any of them is answered; the wait is part of their "
        "PS_proc. Those behind them wait as long in PS_queue. What durability costs a pull or a push is told "
        "by a run without it: hotline compare."
    )
    return Table(f"Commits of all parameter servers, with fsync {summary.durable}", ("", *arms), rows, [note])


def losses(name: str, load: LoadSummary) -> Iterator[Sentence]:
    """One for each arm with offload: metrics for which it is worse than the baseline, interval and all."""
    for arm in (arm.name for arm in MEASURED if arm.offloaded):
        metrics = load.differences.get(arm, {})
        worse = [
            (row.title, metrics[row.metric])
            for row in DIFFERENCE_ROWS
            if tone(metrics.get(row.metric)) == "worse"
        ]
        if worse:
            spans = [Span(text=f"Load {name}, {arm}: ")]
            for number, (title, found) in enumerate(worse):
                spans += [Span(text=f"{', ' if number else ''}{unitless(title)} "), difference(found)]
            yield (*spans, Span(text="."))


def unitless(title: str) -> str:
    """A title without its unit: per cent have none."""
    return title.removesuffix(", µs").replace(", µs/step", " a step").replace("/step", " a step")
