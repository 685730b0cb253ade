"""The first of a run's two answers: what the switch would do as a device of its own, by virtual time.

The same simulation has the cores of the run's machine, too. What it says of them beside what was measured
there is how far the model is off, and the first answer's intervals are wider by as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, expm1, log, log1p

from analysis.answer import Answer, answer, nouns, recommendation, sentences
from analysis.claims import Claim
from analysis.metrics import METRICS
from analysis.record import Virtual
from analysis.statistics import Comparison
from analysis.summary import Summary
from analysis.wording import Sentence, difference, plain, signed


def answers(summary: Summary) -> list[Answer]:
    """All that a run says, the one that holds for others first; nothing follows from a run that is broken."""
    here = answer(summary)
    first = elsewhere(summary) if here.is_trusted else None
    return [here] if first is None else [first, here]


def elsewhere(summary: Summary) -> Answer | None:
    """None where the run was not simulated as well."""
    found, lead = summary.virtual, summary.lead
    if found is None or lead is None or lead.baseline is None or found.load not in summary.loads:
        return None
    measured = summary.loads[found.load].differences.get(lead.name, {})
    claims = {
        name: Claim(METRICS[name], widened(found.own[name], found.shared[name], measured[name]))
        for name in nouns()
        if name in METRICS and name in found.own and name in found.shared and name in measured
    }
    network = found.network
    return Answer(
        title=f"With a switch of its own: arm {lead.name} against {lead.baseline} at load {found.load}, in % "
        f"of {lead.baseline} [95 % interval and the model's error]",
        headline=recommendation(claims, summary, lead.name),
        is_trusted=True,
        sentences=(
            *sentences(claims, where=""),
            _capacity(found, summary.capacity, lead.name, lead.baseline),
            plain(
                "By virtual time: the same steps, costs measured in this run, every worker and server with "
                f"a core of its own, and the switch a device that takes {network['switch_us']:g} µs for a "
                f"frame and {network['switch_mpps']:,.0f} million of them a second."
            ),
            *_beside(found, measured),
        ),
    )


def widened(own: Comparison, shared: Comparison, measured: Comparison) -> Comparison:
    """The interval with as much more on either side as the model is off, by the logarithms of the ratios."""
    if own.ratio_low is None or own.ratio_high is None or shared.ratio is None or measured.ratio is None:
        return own
    off = abs(log1p(shared.ratio) - log1p(measured.ratio))
    low, high = expm1(log1p(own.ratio_low) - off), expm1(log1p(own.ratio_high) + off)
    bounds = {"low": low * own.baseline, "high": high * own.baseline, "ratio_low": low, "ratio_high": high}
    return own.model_copy(update=bounds)


def _capacity(found: Virtual, measured: Mapping[str, float], arm: str, baseline: str) -> Sentence:
    """A closed loop has no rounds: its interval is the model's error alone."""
    own, shared, here = (
        of[arm] / of[baseline] for of in (found.own_capacity, found.shared_capacity, measured)
    )
    off = abs(log(shared / here))
    bounds = f"[{own * exp(-off):.2f}, {own * exp(off):.2f}]"
    return plain(
        f"The cluster carries {own:.2f} times as much {bounds}: {found.own_capacity[arm]:,.0f} steps/s "
        f"of all workers, and {found.own_capacity[baseline]:,.0f} without."
    )


def _beside(found: Virtual, measured: Mapping[str, Comparison]) -> Iterator[Sentence]:
    """What the simulation says of this machine's cores, and what was measured on them, but for counts."""
    parts = []
    for name, noun in nouns().items():
        said, true = found.shared.get(name), measured.get(name)
        if said is None or true is None or said.ratio is None or true.ratio is None:
            continue
        if METRICS[name].kind != "count":
            parts.append(f"{noun} {signed(said.ratio)} %, measured {difference(true).text}")
    if parts:
        yield plain(
            f"How far the model is off, with the cores shared as on this machine: {'; '.join(parts)}."
        )
