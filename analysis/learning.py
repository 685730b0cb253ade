"""How well each arm's model learns, against its baseline's.

An arm trains one model, at all loads in turn, and its rounds are no repetitions. Arms are: those whose
parameters are in the same place, at the servers or the hottest in the switch, are the same course of
training run again, and what they are apart is what asynchronous workers make of it. From that spread comes
the interval, Student's t of as many degrees of freedom as there are repetitions. An arm that is held against
one like itself does not tell the spread: it would be part of its own measure.

Losses are those of the mini-batches, or in a run of a script those that its workers report.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from analysis.errors import AnalysisError
from analysis.record import Block
from analysis.statistics import TAIL, Comparison, of_logs
from foundation.designs.arms import arm, ordered
from foundation.designs.interface import Arm

FILE = "reports.jsonl"
"""In a run's folder, JSON lines: arm, rank of the worker, number of its report (from 0), loss, and more."""

ENOUGH = 5
"""Reports of every arm from which models are compared: before, they have learned hardly anything."""

Curves = Mapping[str, Sequence[float]]
"""Arm -> loss by report: the mean of the workers that report, as far as all of these have come."""


def mean_loss(blocks: Iterable[Block]) -> float | None:
    """Mean log loss of the steps of these blocks that have one."""
    losses = [(block.loss, block.steps) for block in blocks if block.loss is not None]
    return sum(loss * steps for loss, steps in losses) / sum(steps for _, steps in losses) if losses else None


def learning(blocks: Sequence[Block], with_interval: bool = True) -> dict[str, Comparison]:
    """Arm -> its mean log loss against its baseline's; of blocks that were run again the first attempts.

    Of rounds that all arms have as a whole: within a round loads are in random order, and the later one finds
    a model that knows more. There is no interval without an arm that is run twice.
    """
    return compared_courses(_courses(blocks), with_interval)


def compared_courses(courses: Mapping[str, float], with_interval: bool = True) -> dict[str, Comparison]:
    """The same of each arm's mean logarithm of the loss."""
    found = {}
    for each in ordered(courses):
        if each.baseline is None or each.baseline not in courses:
            continue
        low = high = None
        shift = courses[each.name] - courses[each.baseline]
        reach = _reach(courses, each, arm(each.baseline)) if with_interval else None
        if reach is not None:
            low, high = shift - reach, shift + reach
        found[each.name] = of_logs(courses[each.baseline], shift, low, high)
    return found


def _courses(blocks: Sequence[Block]) -> dict[str, float]:
    """Arm -> mean over rounds of the logarithm of a round's loss; of arms all blocks of which have one."""
    arms = [
        arm.name
        for arm in ordered(block.arm for block in blocks)
        if all(block.loss is not None and block.loss > 0 for block in blocks if block.arm == arm.name)
    ]
    loads = {block.load for block in blocks}
    of_round: dict[int, dict[str, list[Block]]] = {}
    for block in blocks:
        of_round.setdefault(block.round, {}).setdefault(block.arm, []).append(block)
    whole = [each for each in of_round.values() if all(len(each.get(arm, ())) == len(loads) for arm in arms)]
    if not whole:
        return {}
    return {
        arm: float(np.mean([log(loss) for each in whole if (loss := mean_loss(each[arm])) is not None]))
        for arm in arms
    }


def _reach(courses: Mapping[str, float], arm: Arm, baseline: Arm) -> float | None:
    """How far an arm's difference to its baseline may be from what it is on average; None if nobody knows."""
    alike: dict[bool, list[float]] = {}
    for each in ordered(courses):
        if each != arm or arm.settings.aggregates != baseline.settings.aggregates:
            alike.setdefault(each.settings.aggregates, []).append(courses[each.name])
    freedom = sum(len(values) - 1 for values in alike.values())
    if not freedom:
        return None
    squares = sum(float(np.var(values)) * len(values) for values in alike.values())
    # Both the arm and the baseline are one course each.
    return float(stdtrit(freedom, 1 - TAIL)) * sqrt(2 * squares / freedom)


def read_curves(run: Path) -> Curves:
    """Read what a run's script reported; empty without a script or a report. Raises `AnalysisError`."""
    file = run / FILE
    if not file.exists():
        return {}
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            report: dict[str, Any] = json.loads(line)
            found[report["arm"]][report["rank"]].append(float(report["loss"]))
        except (ValueError, KeyError, TypeError) as error:
            raise AnalysisError(f"{file}:{number}: no report ({error}): {line[:80]}") from None
    return {arm.name: _mean(found[arm.name].values()) for arm in ordered(found)}


def _mean(of_workers: Collection[Sequence[float]]) -> list[float]:
    reports = min(map(len, of_workers))
    means: list[float] = np.mean([losses[:reports] for losses in of_workers], axis=0).tolist()
    return means


def common_reports(curves: Curves) -> int:
    """Return the number of reports that every arm has."""
    return min(map(len, curves.values()), default=0)


def courses(curves: Curves) -> dict[str, float]:
    """Return arm -> mean logarithm of the losses of the reports that every arm has.

    It is empty if these are not enough, or one of the losses is not above 0.
    """
    reports = common_reports(curves)
    shared = {arm: losses[:reports] for arm, losses in curves.items()}
    if reports < ENOUGH or any(loss <= 0 for losses in shared.values() for loss in losses):
        return {}
    return {arm: float(np.mean([log(loss) for loss in losses])) for arm, losses in shared.items()}
