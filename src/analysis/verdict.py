"""Whether a difference is claimed, and otherwise the reason for which it is not (docs/intervals.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from analysis.disturbed_blocks import DisturbedBlocks
from analysis.metrics import LOSS, Metric, Tone
from analysis.statistics import Comparison


class Verdict(str, Enum):
    """A claim, LESS or MORE, or the reason not to make one. `sentences.differences` has the words."""

    LESS = "less"
    MORE = "more"
    SAME = "same"
    CONTAINS_ZERO = "contains 0"
    AS_NULL = "as null"  # the baseline differs from its own repeat as much
    FEW_ROUNDS = "few rounds"
    UNREPEATED = "unrepeated"  # no arm repeats the training
    DISTURBED = "disturbed"
    MISFIT = "misfit"  # simulated, where the simulation of what was measured is far off
    DROPPED_ROWS = "dropped rows"
    UNCHECKED = "unchecked"  # simulated, without a measurement to check the simulation against
    FEW_CAPACITIES = "few capacities"  # a capacity is measured too few times for an interval
    NOT_MEASURED = "not measured"

    @property
    def sign(self) -> int:
        return {Verdict.LESS: -1, Verdict.MORE: 1}.get(self, 0)

    @property
    def lacks_interval(self) -> bool:
        return self in (Verdict.FEW_ROUNDS, Verdict.UNREPEATED)

    @property
    def is_invalid(self) -> bool:
        return self in (Verdict.DISTURBED, Verdict.MISFIT, Verdict.DROPPED_ROWS, Verdict.UNCHECKED)

    @property
    def is_not_significant(self) -> bool:
        return self in (Verdict.CONTAINS_ZERO, Verdict.AS_NULL)


class Misfit(NamedTuple):
    """A value of the run that its simulation with the costs measured in it does not reproduce."""

    what: str
    arm: str
    simulated: float
    measured: float
    unit: str


@dataclass(frozen=True, slots=True)
class Claim:
    metric: Metric
    change: Comparison
    null: Comparison | None = None
    """Change of the baseline's repetition in the metric; without it (None) the interval alone decides."""
    reference: str = ""  # name of the baseline
    disturbed: DisturbedBlocks | None = None
    misfit: Misfit | None = None
    dropped_rows: int = 0
    is_unchecked: bool = False

    @property
    def max_null_change(self) -> float:
        """Largest distance from 0 in the interval of `null`; 0 without an interval."""
        if self.null is None or self.null.ratio_low is None or self.null.ratio_high is None:
            return 0.0
        return max(abs(self.null.ratio_low), abs(self.null.ratio_high))

    @property
    def is_noise(self) -> bool:
        """Whether the baseline's repetition differs from the baseline by as much."""
        null = self.null
        if null is None or null.low is None or null.high is None:
            return False
        if self.change.ratio is not None:
            return abs(self.change.ratio) <= self.max_null_change
        return abs(self.change.difference) <= max(abs(null.low), abs(null.high))

    @property
    def is_same(self) -> bool:
        """Whether the whole interval is within the metric's tolerance."""
        low, high = self.change.ratio_low, self.change.ratio_high
        if low is None or high is None:
            return self.change.low == self.change.high == 0
        return max(-low, high) <= self.metric.tolerance

    @property
    def verdict(self) -> Verdict:
        if self.change.low is None or self.change.high is None:
            return Verdict.UNREPEATED if self.metric is LOSS else Verdict.FEW_ROUNDS
        if self.is_same and not self.disturbed and not self.misfit:
            return Verdict.SAME
        if not self.change.sign:
            return Verdict.CONTAINS_ZERO
        if self.is_noise:
            return Verdict.AS_NULL
        if self.disturbed:
            return Verdict.DISTURBED
        if self.misfit:
            return Verdict.MISFIT
        if self.dropped_rows:
            return Verdict.DROPPED_ROWS
        if self.is_unchecked:
            return Verdict.UNCHECKED
        return Verdict.MORE if self.change.sign > 0 else Verdict.LESS

    @property
    def sign(self) -> int:
        return self.verdict.sign

    @property
    def tone(self) -> Tone:
        return self.metric.tone(self.sign)

    @property
    def reason(self) -> tuple[object, ...]:
        """The verdict with what explains it; claims with equal reasons share a sentence."""
        return self.explain(self.verdict)

    def explain(self, verdict: Verdict) -> tuple[object, ...]:
        """Return a verdict with what explains it."""
        if verdict is Verdict.DISTURBED and self.disturbed is not None:
            return verdict, self.disturbed.blocks, *self.disturbed.reasons.items()
        if verdict is Verdict.MISFIT and self.misfit is not None:
            return verdict, *self.misfit
        return (verdict,)
