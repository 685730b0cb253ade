"""`report.html`: all of a run, or of a cluster's logs, in one self-contained page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from analysis.page.drawing import Drawing
from analysis.page.plots import Plot
from analysis.wording import AnswerText, Sentence, Table, pairs
from foundation.designs.interface import Arm


def glossary(arms: Sequence[Arm] = ()) -> list[tuple[str, str]]:
    """Return the words of a page, with the arms that are on it first."""
    return pairs("glossary", arms)


@dataclass(frozen=True, slots=True)
class Page:
    """What stands in it; what is empty is left out."""

    title: str
    plots: Sequence[Plot]
    answers: Sequence[AnswerText] = ()
    ran: Sequence[tuple[str, str]] = ()
    """What was run, on what: name and value."""
    drawings: Sequence[Drawing] = ()
    paper: Sequence[Table] = ()
    tables: Sequence[tuple[str, Sequence[Table]]] = ()
    """More of them, each with a heading."""
    baseline: str = ""
    """Of the differences."""
    differences: Sequence[Table] = ()
    losses: Sequence[Sentence] = ()
    no_losses: str = ""
    """What is said where there are none."""
    facts: Sequence[str] = ()
    reading: Sequence[str] = ()
    glossary: Sequence[tuple[str, str]] = field(default_factory=glossary)
    record: str = ""
    """`run.json`."""


def build(page: Page) -> str:
    """The page as HTML, with everything that it needs in it."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_text("page.html.j2"))
    # The only marked-up text is our own; whatever comes from logs is escaped.
    drawings = [{"svg": Markup(each.svg), "caption": each.caption} for each in page.drawings]
    shown: dict[str, Any] = {name: getattr(page, name) for name in page.__slots__} | {"drawings": drawings}
    return template.render(
        page=shown,
        style=Markup(_text("style.css")),
        script=Markup(_text("script.js")),
        library=Markup(get_plotlyjs()),
        data=Markup(_json({plot.name: plot.spec for plot in page.plots})),
    )


def _json(value: object) -> str:
    """JSON that cannot end the element that it stands in."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _text(name: str) -> str:
    return (files("analysis.page") / name).read_text(encoding="utf-8")
