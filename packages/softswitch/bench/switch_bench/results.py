"""Results of a section: values by target, and the goals that they have to meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from switch_bench.baseline import C_LOOP
from switch_bench.switches import BMV2, KERNEL, SOFTSWITCH

Samples = Mapping[str, Sequence[float]]
"""By target, one value a round; the targets of a round are measured right after one another."""


class Targets(NamedTuple):
    """The columns of a table: the measured target, and those that it is compared with."""

    measured: str
    others: tuple[str, ...]


SWITCHES = Targets(SOFTSWITCH, (KERNEL, BMV2, C_LOOP))
FROM_P4, FROM_JSON = "from P4", "from JSON"
SOURCES = Targets(FROM_P4, (FROM_JSON,))
SIMULATED = "simulated"
IN_NETWORK = Targets(SIMULATED, ())


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the measured value, or on its ratio to another target's."""

    at_least: bool
    bound: float
    reference: str | None = None  # the other target; None for a bound on the value itself

    def text(self) -> str:
        factor = "" if self.reference is None else f" × {self.reference}"
        return f"{'≥' if self.at_least else '≤'} {self.bound:,g}{factor}"


@dataclass(frozen=True, slots=True)
class Result:
    section: str
    what: str
    unit: str
    samples: Samples
    goals: tuple[Goal, ...] = ()
    targets: Targets = SWITCHES

    def value(self, target: str) -> float | None:
        """Return the median of a target's rounds."""
        values = self.samples.get(target)
        return median(values) if values else None

    def ratio(self, target: str) -> float | None:
        """Return the ratio of the measured value to another target's: the median of the rounds' ratios."""
        measured, reference = self.samples.get(self.targets.measured), self.samples.get(target)
        if not measured or not reference:
            return None
        return median(a / b for a, b in zip(measured, reference, strict=True))

    def is_met(self, goal: Goal) -> bool | None:
        """Return whether a goal is met; None if the target that it refers to was not measured."""
        reached = self.value(self.targets.measured) if goal.reference is None else self.ratio(goal.reference)
        if reached is None:
            return None
        return reached >= goal.bound if goal.at_least else reached <= goal.bound


def at_least(bound: float, reference: str | None = None) -> Goal:
    return Goal(at_least=True, bound=bound, reference=reference)


def at_most(bound: float, reference: str | None = None) -> Goal:
    return Goal(at_least=False, bound=bound, reference=reference)


# Goals of results, by the value that they bound.
PACKETS_L3 = (at_least(2, BMV2), at_least(0.8, C_LOOP))
LATENCY = (at_most(0.2, BMV2),)
WRITES = (at_least(1, BMV2), at_least(75_000))
LOAD_S = (at_most(2),)
READY = (at_most(1.2, FROM_JSON),)
MEMORY_MB = (at_most(200),)
LOST = (at_most(0),)
IDLE_MS = (at_most(10),)
