"""Text as data: spans with a colour, sentences, tables, and the format of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from analysis.metrics import Tone
from analysis.statistics import Comparison
from foundation.designs.combination import Combination
from foundation.text import pluralize, signed


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
    return Span(text=change_with_interval(comparison), tone=tone)


def change_with_interval(comparison: Comparison) -> str:
    """Format a change with its interval: in per cent, as a multiple, or the values from baseline 0."""
    return f"{change_with_unit(comparison)} {interval(comparison)}".rstrip()


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
    return signed(share, 1 if abs(round(share, 1)) < 10 else 0)


def percent(ratio: float) -> str:
    """Format the size of a change in per cent; only a value of 0 is 100 % less."""
    share = abs(100 * ratio)
    is_nearly_all = round(share) == 100 and -1 < ratio < 0
    return f"{min(round(share, 1), 99.9):.1f} %" if is_nearly_all else f"{share:.0f} %"


def _short(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def losses(lost: int, mismatched_keys: int, combination: Combination) -> str:
    """Return, as a clause, what is wrong with the values of a run that has lost some."""
    keys = pluralize(mismatched_keys, "key")
    if combination is not Combination.ADD and mismatched_keys:
        return f"{keys} {'does' if mismatched_keys == 1 else 'do'} not hold {combination.result}"
    return f"{pluralize(lost, 'update was lost', 'updates were lost')}, at {keys}"


def in_sentences(label: str) -> str:
    return label.replace("/step", " a step")
