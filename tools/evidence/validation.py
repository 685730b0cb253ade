"""Compare simulations of real runs with what was measured: bias, spread, signs and misses of each claim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtrit

from analysis.metrics import METRICS, PS_CPU, PS_PACKETS, WORKER_CPU
from analysis.statistics import Comparison
from analysis.summary import Summary
from foundation.logs.columns import TRANSFERS
from tools.evidence.result import EvidenceError, Measured

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Claim:
    """A quantity that is predicted for each run: a change by the lead arm, or the levels of both arms."""

    title: str
    unit: str
    goal: float
    """Largest error of a prediction, in points of a change or per cent of a level."""
    goal_share: float = 1.0
    """Share of the predictions that have to be within `goal`."""
    has_signs: bool = False
    excludes_bias: bool = False
    """Whether the goal includes that the interval of the mean error contains 0."""

    @property
    def goal_text(self) -> str:
        share = "" if self.goal_share == 1 else f" in {100 * self.goal_share:.0f} %"
        return f"{self.goal:g}{share}{', without bias' if self.excludes_bias else ''}"


PACKETS = Claim("packets to the servers, change", "points", 1)
SERVER_CPU = Claim("the servers' CPU, change", "points", 5, has_signs=True, excludes_bias=True)
WORKER_CPU_CHANGE = Claim("the workers' CPU, change", "points", 5, has_signs=True)
TRANSFER_CHANGE = Claim("mean time of a pull or push, change", "points", 15, has_signs=True)
LATENCY = Claim("mean time of a pull or push", "%", 15, goal_share=0.9)
CAPACITY = Claim("steps/s that the cluster carries with the switch", "%", 10)
"""Steps/s without the switch are fitted, not predicted (`hotline_simulator.dedicated_switch.similar_run`)."""
CLAIMS = (PACKETS, SERVER_CPU, WORKER_CPU_CHANGE, TRANSFER_CHANGE, LATENCY, CAPACITY)
_TRANSFER_MEANS = tuple(f"{op}_mean" for op in TRANSFERS)
_METRICS_OF_CHANGES = {
    PACKETS: (PS_PACKETS.name,), SERVER_CPU: (PS_CPU.name,), WORKER_CPU_CHANGE: (WORKER_CPU.name,),
    TRANSFER_CHANGE: _TRANSFER_MEANS,
}  # fmt: skip


class Prediction(NamedTuple):
    configuration: str
    what: str
    """Metric or operation, and the arm where it is of one."""
    predicted: float
    measured: float
    low: float | None
    """Bounds of what was measured, None where there is no interval."""
    high: float | None
    error: float
    """`predicted - measured` of changes, or the relative error of levels in per cent."""

    @property
    def measured_sign(self) -> int:
        """Return 1 or -1 if the interval of what was measured leaves out 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    @property
    def has_right_sign(self) -> bool:
        return self.predicted * self.measured_sign > 0


Predictions = Mapping[Claim, Sequence[Prediction]]


def predictions_of(configuration: str, summary: Summary) -> Predictions:
    """Return what the simulation of a run's cluster, which uses the costs of that run, says of each claim."""
    virtual, lead = summary.virtual, summary.lead
    if virtual is None or lead is None or lead.reference is None:
        raise EvidenceError(f"{configuration}: expected a run with a simulation of its steps")
    measured = summary.loads[virtual.load].differences[lead.name]
    arms = {"reference": lead.reference, "value": lead.name}
    levels = [
        _level(configuration, f"{METRICS[name].label}, {arm}", getattr(virtual.shared[name], side),
               getattr(measured[name], side))
        for name in _TRANSFER_MEANS
        for side, arm in arms.items()
    ]  # fmt: skip
    changes = {
        claim: [
            _change(configuration, METRICS[name].label, virtual.shared[name], measured[name])
            for name in names
        ]
        for claim, names in _METRICS_OF_CHANGES.items()
    }
    capacity = _level(
        configuration, lead.name, virtual.shared_capacity[lead.name], _measured_capacity(summary, lead.name)
    )
    return {**changes, LATENCY: levels, CAPACITY: [capacity]}


def _level(configuration: str, what: str, predicted: float, measured: float) -> Prediction:
    return Prediction(configuration, what, predicted, measured, None, None, 100 * (predicted / measured - 1))


def _change(configuration: str, what: str, predicted: Comparison, measured: Comparison) -> Prediction:
    if predicted.ratio is None or measured.ratio is None:
        raise EvidenceError(f"{configuration}: {what}: expected a change from a value that is not 0")
    low, high = measured.ratio_low, measured.ratio_high
    return Prediction(
        configuration, what, 100 * predicted.ratio, 100 * measured.ratio,
        None if low is None else 100 * low, None if high is None else 100 * high,
        100 * (predicted.ratio - measured.ratio),
    )  # fmt: skip


def _measured_capacity(summary: Summary, arm: str) -> float:
    return fmean(capacity[arm] for capacity in summary.capacities if arm in capacity)


class Score(NamedTuple):
    claim: Claim
    predictions: int
    bias: Measured
    """Mean error, with its 95 % interval over the configurations."""
    spread: float
    """Standard deviation of the errors."""
    within_goal: float
    signs: tuple[int, int] | None
    """Number of right signs, and of changes whose measured interval leaves out 0."""
    misses: tuple[str, ...]
    """Configurations with predictions beyond the goal, each with its largest error."""

    @property
    def is_met(self) -> bool:
        is_unbiased = self.bias.low <= 0 <= self.bias.high
        return self.within_goal >= self.claim.goal_share and (is_unbiased or not self.claim.excludes_bias)


def score(claim: Claim, predictions: Sequence[Prediction]) -> Score:
    errors = [prediction.error for prediction in predictions]
    if len(errors) < 2:
        raise EvidenceError(f"{claim.title}: expected two predictions or more, got {len(errors)}")
    misses = [prediction for prediction in predictions if abs(prediction.error) > claim.goal]
    significant = [prediction for prediction in predictions if prediction.measured_sign]
    right = sum(prediction.has_right_sign for prediction in significant)
    return Score(
        claim=claim,
        predictions=len(errors),
        bias=_mean_with_interval(_means_by_configuration(predictions)),
        spread=stdev(errors),
        within_goal=1 - len(misses) / len(errors),
        signs=(right, len(significant)) if claim.has_signs else None,
        misses=tuple(f"{name} ({error:+.0f})" for name, error in _largest_by_configuration(misses)),
    )


def _largest_by_configuration(predictions: Iterable[Prediction]) -> Iterator[tuple[str, float]]:
    for name, of_run in groupby(predictions, lambda prediction: prediction.configuration):
        yield name, max((each.error for each in of_run), key=abs)


def _means_by_configuration(predictions: Iterable[Prediction]) -> list[float]:
    # Errors of one run are not independent.
    errors: dict[str, list[float]] = {}
    for prediction in predictions:
        errors.setdefault(prediction.configuration, []).append(prediction.error)
    return [fmean(each) for each in errors.values()]


def _mean_with_interval(values: Sequence[float]) -> Measured:
    mean, n = fmean(values), len(values)
    half_width = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2)) * stdev(values) / math.sqrt(n)
    return Measured(value=mean, low=mean - half_width, high=mean + half_width)


def scores(runs: Mapping[str, Summary]) -> Iterator[Score]:
    """Yield the score of each claim over runs, which have the names of their configurations."""
    found = [predictions_of(name, summary) for name, summary in runs.items()]
    for claim in CLAIMS:
        yield score(claim, [prediction for each in found for prediction in each[claim]])
