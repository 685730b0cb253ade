"""Sentences with better and worse in colours, and how a difference is written."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from analysis.statistics import Comparison

Tone = Literal["", "better", "worse"]


class Span(BaseModel):
    """Part of a sentence; `better` and `worse` are shown in colours."""

    model_config = ConfigDict(frozen=True)

    text: str
    tone: Tone = ""


Sentence = tuple[Span, ...]


def plain(text: str) -> Sentence:
    """A sentence without colours."""
    return (Span(text=text),)


def text_of(sentence: Sentence) -> str:
    """Without its colours."""
    return "".join(span.text for span in sentence)


def difference(found: Comparison, tone: Tone = "") -> Span:
    """In per cent of the baseline with its interval, if there is one; the ratio is known."""
    assert found.ratio is not None
    text = signed(found.ratio)
    text = text if text.startswith("×") else f"{text} %"
    return Span(text=f"{text} {interval(found)}".rstrip(), tone=tone)


def interval(found: Comparison) -> str:
    """In per cent; empty where there is none."""
    if found.ratio_low is None or found.ratio_high is None:
        return ""
    return f"[{signed(found.ratio_low)}, {signed(found.ratio_high)}]"


def signed(ratio: float) -> str:
    """In per cent, without the sign for it; what is more than ten times as much, as a multiple."""
    share = 100 * ratio
    if share >= 1000:
        return f"×{1 + ratio:.0f}"
    return f"{share:+.1f}" if abs(round(share, 1)) < 10 else f"{share:+.0f}"
