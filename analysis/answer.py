"""The answer that a run gives: what offload saves and costs, and whether to do it; or why not to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from analysis.statistics import Comparison
from analysis.summary import LoadSummary, Summary
from common.words import counted
from logs.columns import BASELINE, TRANSFERS
from protocol.arms import AGAIN, HOT, PROXY

Tone = Literal["", "better", "worse"]
Metrics = Mapping[str, Comparison]
Words = Mapping[Tone, str]

SAME_LOSS = 0.01
"""Part of a mean log loss that two models which learn the same may be apart,"""
_TIMES_NOISE = 2.0
"""or as many times what *neither* is from itself: asynchronous training never takes the same course twice."""
SERVER_CPU, WORKER_CPU = "ps_cpu_us_per_step", "worker_cpu_us_per_step"
OWN_CPU = "worker_cpu_without_switch_us_per_step"
_OPS = tuple(f"{op}_mean" for op in TRANSFERS)


class Span(BaseModel):
    """Part of a sentence; `better` and `worse` are shown in colours."""

    model_config = ConfigDict(frozen=True)

    text: str
    tone: Tone = ""


Sentence = tuple[Span, ...]


class Answer(BaseModel):
    """What a reader takes home."""

    model_config = ConfigDict(frozen=True)

    is_trusted: bool
    headline: str
    """Whether to do it, or why these numbers are not to be trusted."""
    load: str
    """That the sentences are of: the first that bears a verdict, if any does."""
    sentences: tuple[Sentence, ...]

    def text(self) -> list[str]:
        """Without colours."""
        return [self.headline, *("".join(span.text for span in each) for each in self.sentences)]


def answer(summary: Summary) -> Answer:
    """Of a run; it compares arm *hot*, and says a word of *proxy*."""
    doubts = list(_doubts(summary))
    bearing = {
        name: load for name, load in summary.loads.items() if load.verdict is not None and load.verdict.bears
    }
    name, load = next(iter((bearing or summary.loads).items()))
    headline = (
        f"Not to be trusted, because {'; '.join(doubts)}."
        if doubts
        else _recommendation(list(bearing.values()))
    )
    return Answer(is_trusted=not doubts, headline=headline, load=name, sentences=tuple(_sentences(load)))


def _doubts(summary: Summary) -> Iterator[str]:
    updates = summary.updates
    if updates.lost or updates.mismatched_keys:
        yield f"{updates.lost:,} updates were lost and {updates.mismatched_keys:,} keys differ"
    if summary.overflows:
        yield f"{summary.overflows:,} additions at the switch overflowed"
    if summary.dropped_rows:
        yield f"the disk was too slow for {counted(summary.dropped_rows, 'row')} of the logs"
    if summary.changed_arms:
        yield f"somebody changed {', '.join(summary.changed_arms)} meanwhile"
    bearing = [load.verdict for load in summary.loads.values() if load.verdict is not None]
    if not any(verdict.bears for verdict in bearing):
        yield from (verdict.reason for verdict in bearing[:1])


def _recommendation(loads: Sequence[LoadSummary]) -> str:
    """Whether to do it, by what no interval leaves open."""
    found = [load.differences.get(HOT.name, {}) for load in loads]
    saves = all(tone(metrics.get(SERVER_CPU)) == "better" for metrics in found)
    ops = {tone(metrics.get(name)) for metrics in found for name in _OPS}
    if saves and "worse" in ops:
        return "Do it only where the servers are what limits you: they save, and here operations take longer."
    if saves and "better" in ops:
        return "Do it: the servers save, and operations complete sooner."
    if saves:
        return "Do it where servers cost you: they save, and no operation takes longer that could be told."
    if "better" in ops and "worse" not in ops:
        return "Do it for the latency: operations complete sooner, and the servers save nothing for certain."
    return "Do not do it here: neither do the servers save for certain, nor do operations complete sooner."


def _sentences(load: LoadSummary) -> Iterator[Sentence]:
    """Five at most."""
    hot, proxy = (load.differences.get(arm.name, {}) for arm in (HOT, PROXY))
    yield from _sentence(hot, _SERVERS, {"ps_packets_per_step": "packets", SERVER_CPU: "CPU a step"})
    yield from _sentence(hot, _OPERATIONS, _TIMES)
    yield from _sentence(
        hot,
        _WORKERS,
        {
            "rpcs_per_step": "RPCs",
            WORKER_CPU: "CPU a step",
            OWN_CPU: "CPU without the switch's program, which runs on their cores",
        },
    )
    yield from _learning(load)
    yield from _sentence(proxy, _PROXY, _TIMES)


_TIMES = {f"{op}_mean": f"for a {op}" for op in TRANSFERS}
_SERVERS: Words = {
    "better": "The servers save",
    "worse": "The servers pay",
    "": "The servers neither save nor pay",
}
_WORKERS: Words = {
    "better": "The workers save",
    "worse": "The workers pay",
    "": "The workers neither save nor pay",
}
_OPERATIONS: Words = {
    "better": "Operations complete sooner",
    "worse": "Operations take longer",
    "": "Operations take as long, as far as can be told",
}
_PROXY: Words = {
    "better": "With the proxy alone operations complete sooner",
    "worse": "With the proxy alone operations take longer",
    "": "With the proxy alone operations take as long, as far as can be told",
}


def _sentence(metrics: Metrics, begin: Words, parts: Mapping[str, str]) -> Iterator[Sentence]:
    """How it begins tells the tone of them together: worse where anything is."""
    known = {behind: metrics[metric] for metric, behind in parts.items() if _is_known(metrics.get(metric))}
    if not known:
        return
    tones = {tone(found) for found in known.values()}
    whole: Tone = "worse" if "worse" in tones else "better" if "better" in tones else ""
    spans = [Span(text=f"{begin[whole]}: ")]
    for place, (behind, found) in enumerate(known.items()):
        spans += [Span(text=", " if place else ""), difference(found), Span(text=f" {behind}")]
    yield tuple(span for span in (*spans, Span(text=".")) if span.text)


def _learning(load: LoadSummary) -> Iterator[Sentence]:
    found, again = (load.differences.get(arm.name, {}).get("loss") for arm in (HOT, AGAIN))
    if found is None or found.ratio is None:
        return
    noise = 0.0 if again is None or again.ratio is None else abs(again.ratio)
    is_same = abs(found.ratio) <= max(SAME_LOSS, _TIMES_NOISE * noise)
    begin = f"The model learns {'the same' if is_same else 'something else'}: "
    learnt: Tone = "" if is_same else "worse" if found.ratio > 0 else "better"
    of_itself = (
        "" if again is None or again.ratio is None else f" ({BASELINE}, run twice: {_percent(again.ratio)})"
    )
    yield (
        Span(text=begin),
        Span(text=_percent(found.ratio), tone=learnt),
        Span(text=f" mean log loss{of_itself}."),
    )


def difference(found: Comparison) -> Span:
    """A difference in per cent of the baseline with its interval; coloured where that leaves out 0."""
    assert found.ratio is not None
    text = _percent(found.ratio)
    if found.ratio_low is not None and found.ratio_high is not None:
        text = f"{text} [{signed(found.ratio_low)}, {signed(found.ratio_high)}]"
    return Span(text=text, tone=tone(found))


def _is_known(found: Comparison | None) -> bool:
    return found is not None and found.ratio is not None


def tone(found: Comparison | None) -> Tone:
    """Less is better of all metrics that are compared; what leaves 0 open is neither."""
    if found is None or found.ratio_low is None or found.ratio_high is None:
        return ""
    return "better" if found.ratio_high < 0 else "worse" if found.ratio_low > 0 else ""


def signed(ratio: float) -> str:
    """In per cent, without the sign for it; what is more than ten times as much, as a multiple."""
    share = 100 * ratio
    if share >= 1000:
        return f"×{1 + ratio:.0f}"
    return f"{share:+.1f}" if abs(share) < 10 else f"{share:+.0f}"


def _percent(ratio: float) -> str:
    text = signed(ratio)
    return text if text.startswith("×") else f"{text} %"
