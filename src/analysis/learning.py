"""Compare how well each arm's model learns with its baseline's (docs/intervals.md).

Arms with the same placement of parameters (all at the servers, or the hottest in the switch) repeat the
same training, and differ only by the asynchrony of their workers. Their spread gives the interval, by
Student's t with as many degrees of freedom as there are repetitions. An arm that is compared with a
baseline of the same placement is left out of the spread by which its difference is judged.

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

from analysis.record import AnalysisError, Block
from analysis.statistics import ALPHA, Comparison, comparison_of_logarithms
from analysis.student import t_quantile
from foundation.designs.arms import arm as arm_of
from foundation.designs.arms import arms_in_order
from foundation.designs.interface import Arm

REPORTS_FILE = "reports.jsonl"
"""File in a run's folder with JSON lines: arm, rank of the worker, report number (from 0), loss, and more."""

MIN_REPORTS = 5
"""Minimum number of reports of every arm to compare models; with fewer, they have hardly learned anything."""

Curves = Mapping[str, Sequence[float]]
"""Arm -> loss by report: the mean over the reporting workers, up to the last report that all of them have."""


def mean_loss(blocks: Iterable[Block]) -> float | None:
    losses = [(block.loss, block.steps) for block in blocks if block.loss is not None]
    return sum(loss * steps for loss, steps in losses) / sum(steps for _, steps in losses) if losses else None


def learning(
    blocks: Sequence[Block], alpha: float = ALPHA, with_interval: bool = True
) -> dict[str, Comparison]:
    # Only rounds that all arms completed count: within a round loads are in random order, and a later block
    # trains a better model. There is no interval without a repeated arm.
    return compare_mean_losses(_mean_log_losses_of(blocks), alpha, with_interval)


def compare_mean_losses(
    log_losses: Mapping[str, float], alpha: float = ALPHA, with_interval: bool = True
) -> dict[str, Comparison]:
    comparisons = {}
    for compared_arm in arms_in_order(log_losses):
        if compared_arm.reference is None or compared_arm.reference not in log_losses:
            continue
        baseline = arm_of(compared_arm.reference)
        low = high = None
        shift = log_losses[compared_arm.name] - log_losses[baseline.name]
        half_width = _half_width(log_losses, compared_arm, baseline, alpha) if with_interval else None
        if half_width is not None:
            low, high = shift - half_width, shift + half_width
        comparison = comparison_of_logarithms(log_losses[baseline.name], shift, low, high)
        comparisons[compared_arm.name] = comparison
    return comparisons


def _mean_log_losses_of(blocks: Sequence[Block]) -> dict[str, float]:
    arms = [
        arm.name
        for arm in arms_in_order(block.arm for block in blocks)
        if all(block.loss is not None and block.loss > 0 for block in blocks if block.arm == arm.name)
    ]
    loads = {block.load for block in blocks}
    blocks_of_round: dict[int, dict[str, list[Block]]] = {}
    for block in blocks:
        blocks_of_round.setdefault(block.round, {}).setdefault(block.arm, []).append(block)
    complete_rounds = [
        blocks_by_arm
        for blocks_by_arm in blocks_of_round.values()
        if all(len(blocks_by_arm.get(arm, ())) == len(loads) for arm in arms)
    ]
    if not complete_rounds:
        return {}
    losses_by_arm = {
        arm: [mean_loss(blocks_by_arm[arm]) for blocks_by_arm in complete_rounds] for arm in arms
    }
    return {
        arm: float(np.mean([log(loss) for loss in losses if loss is not None]))
        for arm, losses in losses_by_arm.items()
    }


def _half_width(log_losses: Mapping[str, float], arm: Arm, baseline: Arm, alpha: float) -> float | None:
    losses: dict[bool, list[float]] = {}  # by whether the arm aggregates
    for other_arm in arms_in_order(log_losses):
        if other_arm != arm or arm.settings.aggregates != baseline.settings.aggregates:
            losses.setdefault(other_arm.settings.aggregates, []).append(log_losses[other_arm.name])
    degrees_of_freedom = sum(len(values) - 1 for values in losses.values())
    if not degrees_of_freedom:
        return None
    sum_of_squares = sum(float(np.var(values)) * len(values) for values in losses.values())
    # The difference of two trainings has twice the variance of one.
    return t_quantile(degrees_of_freedom, 1 - alpha / 2) * sqrt(2 * sum_of_squares / degrees_of_freedom)


def read_curves(run: Path) -> Curves:
    file = run / REPORTS_FILE
    if not file.exists():
        return {}
    losses_by_report: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            report: dict[str, Any] = json.loads(line)  # of a user's script
            losses_by_report[report["arm"]][report["rank"]].append(float(report["metrics"]["loss"]))
        except (ValueError, KeyError, TypeError) as error:
            raise AnalysisError(f"{file}:{number}: expected a report, got {line[:80]!r}: {error}") from None
    return {
        arm.name: _mean_by_report(losses_by_report[arm.name].values())
        for arm in arms_in_order(losses_by_report)
    }


def _mean_by_report(losses_of_workers: Collection[Sequence[float]]) -> list[float]:
    reports = min(map(len, losses_of_workers))
    means: list[float] = np.mean([losses[:reports] for losses in losses_of_workers], axis=0).tolist()
    return means


def common_reports(curves: Curves) -> int:
    return min(map(len, curves.values()), default=0)


def mean_log_losses(curves: Curves) -> dict[str, float]:
    reports = common_reports(curves)
    common_losses = {arm: losses[:reports] for arm, losses in curves.items()}
    if reports < MIN_REPORTS or any(loss <= 0 for losses in common_losses.values() for loss in losses):
        return {}
    return {arm: float(np.mean([log(loss) for loss in losses])) for arm, losses in common_losses.items()}
