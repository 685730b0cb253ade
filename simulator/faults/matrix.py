"""The matrix of faults: many schedules of each row, side by side, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from pydantic import Field

from controller.dask_cluster import side_by_side
from foundation.designs.registry import design
from foundation.settings import Strict
from simulator.faults.bed import Bed
from simulator.faults.draw import draw
from simulator.faults.play import play_schedule
from simulator.faults.player import Outcome
from simulator.faults.schedule import ARMS, Schedule
from simulator.faults.strikes import FAULTS, faults_of

Progress = Callable[[int, int], None]
"""Told how many schedules are done, of how many."""
_AT_ONCE = 250
_TRIES = 50
_ANOTHER = 1 << 40
_KEPT = 3
"""Failures of a row."""


class Failure(Strict):
    """A schedule that did not hold."""

    schedule: str
    """As JSON."""
    outcome: str


class Tally(Strict):
    """What came of some schedules of a row."""

    schedules: int = 0
    happened: int = 0
    """Whose fault struck while RPCs were answered."""
    redrawn: int = 0
    """Others, whose fault did not strike; they were judged too."""
    rpcs: int = 0
    during: int = 0
    """RPCs that were answered between the strike and the recovery."""
    sent: int = 0
    """Lanes of pushes that were acknowledged."""
    lost: int = 0
    """Keys that held too little at the end."""
    doubled: int = 0
    """Keys that held too much, or anything else."""
    misread: int = 0
    """Values that pulls brought out of their bounds."""
    stuck: int = 0
    """Schedules that did not come to rest."""
    recovery_ms: tuple[float, ...] = ()
    failures: tuple[Failure, ...] = Field(default=(), max_length=_KEPT)

    @classmethod
    def of(cls, parts: Iterable[Tally]) -> Tally:
        """All of them together."""
        parts = list(parts)
        of_each = {name: [getattr(part, name) for part in parts] for name in cls.model_fields}
        recoveries, failures = (
            tuple(chain.from_iterable(of_each.pop(name))) for name in ("recovery_ms", "failures")
        )
        numbers = {name: sum(values) for name, values in of_each.items()}
        return cls(**numbers, recovery_ms=recoveries, failures=failures[:_KEPT])

    @property
    def holds(self) -> bool:
        """Nothing was lost, doubled, misread or stuck, and every fault struck."""
        return not (self.lost or self.doubled or self.misread or self.stuck or self.failures) and (
            self.happened == self.schedules
        )


Row = tuple[str, str]
"""A fault and an arm."""
ROWS: tuple[Row, ...] = tuple(
    (fault, name) for fault in FAULTS for name, arm in ARMS.items() if fault in faults_of(design(arm.design))
)


def play_rows(
    rows: Sequence[Row],
    schedules: int,
    first_seed: int,
    scheduler: str | None,
    processes: int,
    progress: Progress,
) -> dict[Row, Tally]:
    """Play so many schedules of each row; `ClusterError` where there is nobody to do it."""
    tasks = [
        (fault, arm, first_seed + start, min(_AT_ONCE, schedules - start))
        for start in range(0, schedules, _AT_ONCE)
        for fault, arm in rows
    ]
    found: dict[Row, list[Tally]] = {row: [] for row in rows}
    done, total = 0, schedules * len(rows)
    progress(0, total)
    for number, text in side_by_side(play_some, tasks, scheduler, processes):
        fault, arm, _, n = tasks[number]
        found[fault, arm].append(Tally.model_validate_json(text))
        done += n
        progress(done, total)
    return {row: Tally.of(parts) for row, parts in found.items()}


def play_some(fault: str, arm: str, first_seed: int, schedules: int) -> str:
    """Play the schedules of some seeds; returns a `Tally` as JSON."""
    bed = bed_of(arm)
    played = (play_striking(bed, fault, arm, first_seed + k) for k in range(schedules))
    return Tally.of(played).model_dump_json()


@cache
def bed_of(arm: str) -> Bed:
    """One for each arm and process."""
    return Bed(ARMS[arm])


def play_striking(bed: Bed, fault: str, arm: str, seed: int) -> Tally:
    """The first schedule of a seed whose fault strikes, or that fails."""
    for redrawn in range(_TRIES):
        schedule = draw(fault, arm, seed + redrawn * _ANOTHER)
        outcome = play_schedule(bed, schedule)
        if outcome.struck or not outcome.holds:
            break
    return tally_of(schedule, outcome, redrawn)


def tally_of(schedule: Schedule, outcome: Outcome, redrawn: int = 0) -> Tally:
    """Of one schedule."""
    judged = outcome.judgement
    failures = () if outcome.holds else (Failure(schedule=schedule.to_json(), outcome=str(outcome)),)
    return Tally(
        schedules=1,
        happened=int(outcome.struck),
        redrawn=redrawn,
        rpcs=outcome.rpcs,
        during=outcome.during,
        sent=judged.sent,
        lost=judged.lost,
        doubled=judged.doubled,
        misread=judged.early + judged.late,
        stuck=int(not outcome.at_rest),
        recovery_ms=(outcome.recovery_ms,),
        failures=failures,
    )


def as_rows(found: dict[Row, Tally]) -> list[dict[str, Any]]:  # JSON
    """The matrix as `runs/faults.json` has it."""
    return [
        {
            "fault": fault,
            "arm": arm,
            **tally.model_dump(exclude={"recovery_ms", "failures"}),
            "recovery_ms": quantiles(tally.recovery_ms),
        }
        for (fault, arm), tally in found.items()
    ]


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """p50 and p99."""
    p50, p99 = np.quantile(values, [0.5, 0.99], method="inverted_cdf").tolist() if values else (0.0, 0.0)
    return {"p50": round(p50, 3), "p99": round(p99, 3)}
