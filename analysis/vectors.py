"""What a run says whose workers add up one vector a step, and wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.summary import ArmSummary, Summary
from foundation.designs.registry import design
from foundation.words import capital

_US = 1e6
_MANY = 1e5
"""From here on in millions."""


def of_vectors(summary: Summary) -> Iterator[str]:
    """What a step takes and brings, what the switch does, and what it promises; nothing of other runs."""
    if summary.vector is None:
        return
    [(_, load), *_] = summary.loads.items()
    of = design(summary.baseline.design)
    first = load.arms[summary.baseline.name]
    took = first.op_latency_us["push"].mean
    if took is not None:
        yield (
            f"All workers have the sum of {summary.vector:,} values in {took / 1e3:,.1f} ms: "
            f"{_goodput(summary.vector, first)} values/s a worker."
        )
    yield f"{capital(of.summary)}."
    others = [arm for arm in summary.run_arms if arm is not summary.baseline]
    for arm in others:
        yield f"Arm {arm.name}, {arm.about}: {_goodput(summary.vector, load.arms[arm.name])} values/s."
    yield f"What is promised: {of.promise}."


def _goodput(vector: int, arm: ArmSummary) -> str:
    """Values of a vector over the mean time of a push, as [SwitchML] has its aggregated throughput."""
    took = arm.op_latency_us["push"].mean
    if not took:
        return "no"
    rate = vector / took * _US
    return f"{rate / 1e6:,.2f} million" if rate >= _MANY else f"{rate:,.0f}"
