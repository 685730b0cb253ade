from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from analysis.forest import ForestRow, axis_limit
from analysis.page.plots import Plot
from analysis.record import RunRecord
from analysis.sentences.differences import row_reason
from analysis.sentences.page import glossary
from analysis.summary import Summary
from analysis.wording import AnswerText, ReportTable, Sentence, change_with_unit, interval
from foundation.designs.arms import arms_in_order
from foundation.logs.columns import at_load
from foundation.text import pluralize

ABSENCE: str | None = None
"""Why no page can be made; None if one can."""
try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs
except ImportError as error:
    ABSENCE = str(error)


class ResultColumns(NamedTuple):
    """Titles of the result's columns; the first is empty without a simulated dedicated switch."""

    dedicated: str
    measured: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run, which the terminal and the page show first."""

    title: str
    verdict: str
    figures: Sequence[str]
    """The verdict's figures, a sentence for each column; the verdict has those of a single column."""
    is_trusted: bool
    rows: Sequence[ForestRow]
    sentences: Sequence[Sentence]
    warnings: Sequence[Sentence]
    notes: Sequence[str]
    columns: ResultColumns
    busy: str = ""  # that the machine was busy
    row_reasons: Sequence[str] = ()
    """For the terminal: the rows that are not claimed, by reason."""


@dataclass(frozen=True, slots=True)
class Drawing:
    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    plots: Sequence[Plot] = ()
    first_screen: Result | None = None
    answers: Sequence[AnswerText] = ()
    subtitle: str = ""
    provenance: Sequence[tuple[str, str]] = ()
    drawings: Sequence[Drawing] = ()
    paper: Sequence[ReportTable] = ()
    tables: Sequence[tuple[str, Sequence[ReportTable]]] = ()  # with the title of the part that shows them
    reference: str = ""
    differences: Sequence[ReportTable] = ()
    worse_metrics: Sequence[Sentence] = ()
    nothing_worse: str = ""
    facts: Sequence[str] = ()
    how_to_read: Sequence[str] = ()
    glossary: Sequence[tuple[str, str]] = field(default_factory=glossary)
    record: str = ""


def build(page: Page) -> str:
    return _render(
        "page.html.j2",
        page=page,
        forest=forest_plot(page.first_screen.rows, page.first_screen.columns) if page.first_screen else "",
        style=Markup(_read_text("style.css")),
        script=Markup(_read_text("script.js")),
        library=Markup(get_plotlyjs()),
        data=Markup(_to_json({plot.name: plot.spec for plot in page.plots})),
    )


def fragment(answer: AnswerText | None, tables: Sequence[ReportTable]) -> str:
    """Return HTML for a part of another page, such as a notebook: no head, style or script."""
    return _render("fragment.html.j2", answer=answer, tables=tables)


def drawings(summary: Summary, record: RunRecord) -> list[Drawing]:
    name, load = next(iter(summary.loads.items()))
    lead = summary.lead
    arms = [arm for arm in arms_in_order(load.arms) if lead and arm.name in (lead.name, lead.reference)]
    if not all(load.arms[arm.name].steps for arm in arms):
        return []
    hosts = {
        "workers": pluralize(record.config.get("workers", 1), "worker"),
        "servers": pluralize(record.config.get("servers", 1), "parameter server"),
    }
    return [
        Drawing(
            _render("network.svg.j2", arm=arm, arm_summary=load.arms[arm.name], **hosts),
            f"Arm {arm.name}, {arm.about}: means of a step, {at_load(name)}.",
        )
        for arm in arms
    ]


def forest_plot(rows: Sequence[ForestRow], columns: ResultColumns) -> Markup:
    if not rows:
        return Markup()
    limit = axis_limit(rows)

    def position_percent(share: float) -> float:
        # The line of no change is in the middle, at 50 %.
        return round(50 + 50 * max(-1.0, min(1.0, share / limit)), 2)

    return _render("forest.html.j2", rows=rows, at=position_percent, columns=columns)


def _render(name: str, **context: object) -> Markup:
    return Markup(_environment().get_template(name).render(context))


@cache
def _environment() -> Environment:
    """Return the environment of all templates, which compiles each of them once."""
    environment = Environment(
        loader=PackageLoader("analysis.page", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "change": change_with_unit,
        "format": format,
        "interval": interval,
        "row_reason": row_reason,
    }
    return environment


def _to_json(value: object) -> str:
    """Return JSON without `<`, which could end the enclosing element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _read_text(name: str) -> str:
    return (files("analysis.page") / name).read_text(encoding="utf-8")
