"""The fault matrix: many schedules of each fault and arm, played in parallel, and their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from pydantic import Field

from controller.dask_cluster import run_in_parallel
from experiment.requirements import RunKind, check_design
from foundation.designs.arms import fault_arms
from foundation.designs.registry import design
from foundation.settings import Strict
from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import FAULTS, faults_of, play_schedule
from hotline_simulator.faults.player import ScheduleOutcome
from hotline_simulator.faults.schedule import ARMS, FaultSchedule, network_of, ranges_of
from hotline_simulator.faults.testbed import SimulatedTestbed

MatrixProgress = Callable[[int, int], None]
_SCHEDULES_PER_TASK = 250
_MAX_DRAWS = 50  # of schedules for one seed, until its faults have an effect
_SEED_STRIDE = 1 << 40  # between the seeds of these draws: more than the schedules of a matrix
_MAX_FAILURES = 3  # failures that a tally quotes


class Failure(Strict):
    schedule: str
    outcome: str


class Tally(Strict):
    schedules: int = 0
    happened: int = 0
    """Schedules whose faults took effect, and in which RPCs were answered after the first fault began."""
    redrawn: int = 0
    """Further schedules that were drawn because a fault had no effect; they were checked too."""
    rpcs: int = 0
    during: int = 0  # RPCs answered after the first fault began
    sent: int = 0  # lanes of pushes that were acknowledged
    lost: int = 0
    """Keys whose final value is too small; `doubled` counts those whose final value is too large."""
    doubled: int = 0
    torn: int = 0  # rows with a push in some of their values only
    misread: int = 0  # pulled values out of bounds
    stuck: int = 0  # schedules that did not come to rest
    recovery_ms: tuple[float, ...] = ()
    failures: tuple[Failure, ...] = Field(default=(), max_length=_MAX_FAILURES)

    @classmethod
    def total(cls, tallies: Iterable[Tally]) -> Tally:
        tallies = list(tallies)
        values_by_field = {name: [getattr(tally, name) for tally in tallies] for name in cls.model_fields}
        recoveries, failures = (
            tuple(chain.from_iterable(values_by_field.pop(name))) for name in ("recovery_ms", "failures")
        )
        numbers = {name: sum(values) for name, values in values_by_field.items()}
        return cls(**numbers, recovery_ms=recoveries, failures=failures[:_MAX_FAILURES])

    @property
    def holds(self) -> bool:
        faults = (self.lost, self.doubled, self.torn, self.misread, self.stuck)
        return not (any(faults) or self.failures) and self.happened == self.schedules


MatrixRow = tuple[str, str]


def rows_of(arms: Iterable[str]) -> tuple[MatrixRow, ...]:
    """Return the faults that can be injected into arms: (fault, arm) each."""
    arms = tuple(arms)
    return tuple((fault, arm) for fault in FAULTS for arm in arms if fault in faults_of(arm))


MATRIX_ROWS = rows_of(ARMS)


DESIGNS = tuple(dict.fromkeys(ARMS[arm].design for _, arm in MATRIX_ROWS))


def warm_faults(name: str, faults: Collection[str] = FAULTS) -> None:
    """Compile what schedules of these faults of a design run, by playing one of each at a single switch."""
    arms = [arm for _, arm in MATRIX_ROWS if ARMS[arm].design == name]
    arm = arms[0] if arms else f"{name}:{fault_arms(name)[0].name}"  # of a design that is a module
    # Faults of networks alone compile nothing of their own.
    for fault in [each for each in faults_of(arm) if each in faults] or faults_of(arm)[:1]:
        play_schedule(cached_testbed(arm), draw_faults(fault, arm, seed=0))


def play_rows(
    rows: Sequence[MatrixRow],
    schedules: int,
    first_seed: int,
    scheduler: str | None,
    processes: int,
    progress: MatrixProgress,
) -> dict[MatrixRow, Tally]:
    """Play `schedules` schedules of each row; raise `ClusterError` if no process can play them."""
    for name in dict.fromkeys(ARMS[arm].design for _, arm in rows):
        check_design(name, RunKind.FAULTS)
        # Compile once, and not in each process.
        warm_faults(name, {fault for fault, arm in rows if ARMS[arm].design == name})
    tasks = [
        (fault, arm, first_seed + start, min(_SCHEDULES_PER_TASK, schedules - start))
        for start in range(0, schedules, _SCHEDULES_PER_TASK)
        for fault, arm in rows
    ]
    tallies: dict[MatrixRow, list[Tally]] = {row: [] for row in rows}
    done, total = 0, schedules * len(rows)
    progress(0, total)
    for task_number, text in run_in_parallel(play_seeds, tasks, scheduler, processes):
        fault, arm, _, n = tasks[task_number]
        tallies[fault, arm].append(Tally.model_validate_json(text))
        done += n
        progress(done, total)
    return {row: Tally.total(parts) for row, parts in tallies.items()}


def play_seeds(fault: str, arm: str, first_seed: int, schedules: int) -> str:
    testbed = cached_testbed(arm)
    tallies = (play_effective(testbed, fault, arm, first_seed + k) for k in range(schedules))
    return Tally.total(tallies).model_dump_json()


@cache
def cached_testbed(arm: str) -> SimulatedTestbed:
    check_design(ARMS[arm].design, RunKind.FAULTS)
    ranges = ranges_of(design(ARMS[arm].design))
    return SimulatedTestbed(ARMS[arm], ranges=ranges, topology=network_of(arm))


def play_effective(testbed: SimulatedTestbed, fault: str, arm: str, seed: int) -> Tally:
    for redrawn in range(_MAX_DRAWS):
        schedule = draw_faults(fault, arm, seed + redrawn * _SEED_STRIDE)
        outcome = play_schedule(testbed, schedule)
        if outcome.took_effect or not outcome.holds:
            break
    return tally_of(schedule, outcome, redrawn)


def tally_of(schedule: FaultSchedule, outcome: ScheduleOutcome, redrawn: int = 0) -> Tally:
    judgement = outcome.judgement
    failures = () if outcome.holds else (Failure(schedule=schedule.to_json(), outcome=str(outcome)),)
    return Tally(
        schedules=1,
        happened=int(outcome.took_effect),
        redrawn=redrawn,
        rpcs=outcome.rpcs,
        during=outcome.during,
        sent=judgement.sent,
        lost=judgement.lost,
        doubled=judgement.doubled,
        torn=judgement.torn,
        misread=judgement.early + judgement.late,
        stuck=int(not outcome.at_rest),
        recovery_ms=(outcome.recovery_ms,),
        failures=failures,
    )


def as_rows(tallies: dict[MatrixRow, Tally]) -> list[dict[str, Any]]:  # JSON
    return [
        {
            "fault": fault,
            "arm": arm,
            **tally.model_dump(exclude={"recovery_ms", "failures"}),
            "recovery_ms": quantiles(tally.recovery_ms),
        }
        for (fault, arm), tally in tallies.items()
    ]


def quantiles(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.quantile(values, [0.5, 0.99], method="inverted_cdf").tolist() if values else (0.0, 0.0)
    return {"p50": round(p50, 3), "p99": round(p99, 3)}
