"""Text as data, the format of numbers, and the sentences of reports from `sentences.txt.j2`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from pydantic import BaseModel, ConfigDict

from analysis import disturbance, learning, statistics
from analysis.claims import group_by_reason, group_claims, groups_without_claim
from analysis.facts import MAX_HOT_PART, P99_STEPS
from analysis.metrics import METRICS, Tone, goals, metrics_of_subject, metrics_of_table
from analysis.record import ANY
from analysis.statistics import Comparison
from analysis.stopping import LOOKS
from analysis.verdict import Claim, Verdict
from foundation.designs.arms import arms_by_reference
from foundation.designs.registry import design
from foundation.logs.columns import at_load, load_title
from foundation.text import capital, pluralize

DISTURBANCE_WORDS = {
    "steal": "the hypervisor used the CPU",
    "others' CPU": "other programs used the CPU",
    "restart": "a server or the switch restarted",
    "pressure": "processes waited for a CPU",
    "run queue": "an agent waited for a CPU",
    "retransmissions": "unusually many frames were sent again",
    "lateness": "the load generator was late",
}
"""Disturbance -> what happened, as a clause that goes on with "in N of M blocks"."""


class Span(BaseModel):
    model_config = ConfigDict(frozen=True)

    text: str
    tone: Tone = ""


Sentence = tuple[Span, ...]
Row = Sequence[str | Sentence]


class AnswerText(BaseModel):
    model_config = ConfigDict(frozen=True)

    title: str
    headline: str
    is_trusted: bool
    sentences: tuple[Sentence, ...]

    def texts(self) -> list[str]:
        return [sentence_text(sentence) for sentence in self.sentences]


@dataclass(frozen=True, slots=True)
class ReportTable:
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def titles(self) -> list[str]:
        return [row[0] for row in self.texts()]

    def texts(self) -> list[list[str]]:
        return [[cell if isinstance(cell, str) else sentence_text(cell) for cell in row] for row in self.rows]


def plain(text: str) -> Sentence:
    return (Span(text=text),)


def sentence_text(sentence: Sentence) -> str:
    return "".join(span.text for span in sentence)


def difference(comparison: Comparison, tone: Tone = "") -> Span:
    """Return a change with its interval: in per cent, as a multiple, or the values from baseline 0."""
    return Span(text=f"{change_with_unit(comparison)} {interval(comparison)}".rstrip(), tone=tone)


def change_with_unit(comparison: Comparison) -> str:
    text = change(comparison)
    return text if comparison.ratio is None or text.startswith("×") else f"{text} %"


def change(comparison: Comparison) -> str:
    """Format a change without its interval and the per cent sign."""
    if comparison.ratio is None:
        return f"{comparison.reference:g} → {_short(comparison.value)}"
    return signed_percent(comparison.ratio)


def interval(comparison: Comparison) -> str:
    if comparison.ratio_low is None or comparison.ratio_high is None:
        return ""
    return f"[{signed_percent(comparison.ratio_low)}, {signed_percent(comparison.ratio_high)}]"


def signed_percent(ratio: float) -> str:
    """Format a change in per cent, without the per cent sign; a tenfold or larger one as a multiple."""
    share = 100 * ratio
    if share >= 1000:
        return f"×{1 + ratio:,.0f}"
    return f"{share:+.1f}" if abs(round(share, 1)) < 10 else f"{share:+.0f}"


def percent(ratio: float) -> str:
    """Format the size of a change in per cent; only a value of 0 is 100 % less."""
    share = abs(100 * ratio)
    is_nearly_all = round(share) == 100 and -1 < ratio < 0
    return f"{min(round(share, 1), 99.9):.1f} %" if is_nearly_all else f"{share:.0f} %"


def _short(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def in_sentences(label: str) -> str:
    return label.replace("/step", " a step")


def sentences(macro: str, *arguments: object, **context: object) -> list[Sentence]:
    rendered: Callable[..., str] = getattr(_template().make_module(context), macro)
    # A sentence begins a line with "- "; its line breaks count as blanks.
    items = re.split(r"^- ", str(rendered(*arguments)), flags=re.MULTILINE)
    return [_parse_spans(" ".join(item.split())) for item in items if item.strip()]


def texts(macro: str, *arguments: object, **context: object) -> list[str]:
    return list(map(sentence_text, sentences(macro, *arguments, **context)))


def pairs(macro: str, *arguments: object, **context: object) -> list[tuple[str, str]]:
    # In the template, " | " separates name and value.
    parts = [text.partition(" | ") for text in texts(macro, *arguments, **context)]
    return [(name, value) for name, _, value in parts]


# A tone and its text, as `_format_change` marks them.
_TONED_TEXT = re.compile(r"\{(better|worse):(.*?)\}")


def _parse_spans(text: str) -> Sentence:
    spans = []
    for number, part in enumerate(parts := _TONED_TEXT.split(text)):
        # Parts alternate: plain text, a tone, and text with that tone.
        if part and number % 3 != 1:
            spans.append(Span.model_validate({"text": part, "tone": parts[number - 1] if number % 3 else ""}))
    return tuple(spans)


def _format_change(compared: Claim | Comparison) -> str:
    if isinstance(compared, Comparison):
        return difference(compared).text
    text = difference(compared.change).text
    return f"{{{compared.tone}:{text}}}" if compared.tone else text


@lru_cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("analysis", ""), undefined=StrictUndefined, lstrip_blocks=True
    )
    environment.filters |= {
        "at_load": at_load, "capital": capital, "change": _format_change, "format": format,
        "in_sentences": in_sentences, "interval": interval, "load_title": load_title,
        "percent": percent, "signed_percent": signed_percent,
    }  # fmt: skip
    environment.globals |= {
        "ANY": ANY, "METRICS": METRICS, "group_claims": group_claims,
        "arms_by_reference": arms_by_reference, "design": design, "disturbance": disturbance,
        "MAX_HOT_PART": MAX_HOT_PART, "P99_STEPS": P99_STEPS, "goals": goals, "learning": learning,
        "LOOKS": LOOKS,
        "metrics_of_table": metrics_of_table, "metrics_of_subject": metrics_of_subject,
        "pluralize": pluralize, "statistics": statistics,
        "DISTURBANCE_WORDS": DISTURBANCE_WORDS, "Verdict": Verdict, "group_by_reason": group_by_reason,
        "groups_without_claim": groups_without_claim,
    }  # fmt: skip
    return environment.get_template("sentences.txt.j2")
