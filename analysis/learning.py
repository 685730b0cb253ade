"""How well each arm's model learns, against its baseline's.

An arm trains one model, at all loads in turn, and its rounds are no repetitions. Arms are: those whose
parameters are in the same place, at the servers or the hottest in the switch, are the same course of
training run again, and what they are apart is what asynchronous workers make of it. From that spread comes
the interval, Student's t of as many degrees of freedom as there are repetitions. An arm that is held against
one like itself does not tell the spread: it would be part of its own measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log, sqrt

import numpy as np
from scipy.special import stdtrit

from analysis.record import Block
from analysis.statistics import TAIL, Comparison, of_logs
from foundation.designs.arms import arm, ordered
from foundation.designs.interface import Arm


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
