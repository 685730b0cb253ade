"""Which differences are claimed. Each stands for itself: on its own interval, null and blocks.

A difference is claimed where its 95 % interval leaves out 0, and it is farther from 0 than the interval of
the null reaches, the baseline measured again, of the same metric at the same load. What stayed disturbed in
too many blocks hinders claims of the metrics that it touches, and no others.
docs/intervals.md says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.metrics import LOSS, METRICS, Kind, Metric, shown_in
from analysis.statistics import Comparison
from analysis.summary import Summary
from analysis.wording import Tone
from foundation.designs.arms import arm as arm_of
from foundation.designs.arms import repetition_of
from foundation.designs.interface import Arm
from foundation.words import counted


@dataclass(frozen=True, slots=True)
class Claim:
    """What may be said of an arm's metric, against the baseline's."""

    metric: Metric
    found: Comparison
    """Its ratio is known."""
    null: Comparison | None = None
    """The baseline again, of the same metric; None where there is none, and the interval decides alone."""
    baseline: str = ""
    """The arm that it is against."""
    hindrance: str = ""
    """Why no difference is claimed, whatever interval and null bear."""

    @property
    def is_noise(self) -> bool:
        """Whether the null shows as much."""
        assert self.found.ratio is not None
        if self.null is None or self.null.ratio_low is None or self.null.ratio_high is None:
            return False
        return abs(self.found.ratio) <= max(abs(self.null.ratio_low), abs(self.null.ratio_high))

    @property
    def is_same(self) -> bool:
        """Whether the arms are alike in practice: the whole interval is within the metric's tolerance."""
        low, high = self.found.ratio_low, self.found.ratio_high
        return low is not None and high is not None and max(-low, high) <= self.metric.tolerance

    @property
    def sign(self) -> int:
        """-1: less than the baseline is claimed; 1: more; 0: no difference."""
        return 0 if self.hindrance else self._shown

    @property
    def is_withheld(self) -> bool:
        """Whether a difference would be claimed if nothing hindered it."""
        return bool(self.hindrance and self._shown)

    @property
    def _shown(self) -> int:
        """The sign of what interval and null bear."""
        return 0 if self.is_same or self.is_noise else self.found.sign

    @property
    def tone(self) -> Tone:
        """Whether that is better or worse."""
        return self.metric.tone(self.sign)


def claims(summary: Summary, load: str, arm: str) -> dict[str, Claim]:
    """Metric -> claim, of an arm at a load; of the null itself by the interval alone."""
    of_load = summary.loads[load]
    found = of_load.differences.get(arm, {})
    baseline = arm_of(arm).baseline or ""
    noise = repetition_of(baseline)
    null = {} if noise is None or noise.name == arm else of_load.differences.get(noise.name, {})
    hindrances = {**dict(_of_the_run(summary)), **of_load.hindrances.get(arm, {})}
    return {
        metric.name: Claim(
            metric, found[metric.name], null.get(metric.name), baseline, hindrances.get(metric.kind, "")
        )
        for metric in METRICS.values()
        if metric.name in found and found[metric.name].ratio is not None
    }


Row = tuple[Metric, float, list[tuple[Arm, Comparison | None, Tone]]]
"""Of a table of differences: a metric, what the baseline has of it, and how each arm differs."""


def rows_of(summary: Summary, load: str, arms: Sequence[Arm]) -> Iterator[Row]:
    """Of arms with one baseline, the metrics that one of them is compared by; of a sole arm its own."""
    if len(summary.run_arms) == 1:
        yield from _alone(summary, load)
    found = [summary.loads[load].differences[arm.name] for arm in arms]
    claimed = [claims(summary, load, arm.name) for arm in arms]
    for metric in shown_in("differences"):
        of_arms = [each.get(metric.name) for each in found]
        tones: list[Tone] = [each[metric.name].tone if metric.name in each else "" for each in claimed]
        # What a repetition differs by is noise, and neither better nor worse.
        cells = [
            (arm, each, "" if arm.is_repetition else tone)
            for arm, each, tone in zip(arms, of_arms, tones, strict=True)
        ]
        known = [each for each in of_arms if each is not None]
        if known:
            yield metric, known[0].baseline, cells


def _alone(summary: Summary, load: str) -> Iterator[Row]:
    values = summary.loads[load].arms[summary.baseline.name]
    placed = [metric for metric in shown_in("differences") if metric.place is not None]
    for metric in placed:
        if value := values.of(metric):  # 0 is what nobody did: pulls of a worker's own model, idle servers
            yield metric, value, []


def claim_of_learning(summary: Summary, arm: str) -> Claim | None:
    """Of the whole run; None where nothing was learnt. Its interval has the null in it."""
    found = summary.learning.get(arm)
    return None if found is None else Claim(metric_of_learning(summary), found)


def metric_of_learning(summary: Summary) -> Metric:
    """What tells how well a run's models learn: a script's by the reports that all arms have."""
    if summary.reports is None:
        return LOSS
    return replace(LOSS, label=f"mean loss over the first {summary.reports:,} reports of every worker")


def _of_the_run(summary: Summary) -> Iterator[tuple[Kind, str]]:
    """Times are from the logs; servers, workers and kernel count the rest themselves."""
    if summary.dropped_rows:
        yield "time", f"the disk was too slow for {counted(summary.dropped_rows, 'row')} of the logs"
