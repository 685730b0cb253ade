"""What a script's workers have reported of their training, arm by arm."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from analysis.errors import AnalysisError
from foundation.designs.arms import ordered

FILE = "reports.jsonl"
"""In the run's folder, a line of JSON each: arm, rank, report (from 0 on), loss, and what else was told."""

ENOUGH = 5
"""Reports that every arm has, from which on models are compared: before they have learnt hardly anything."""

Curves = Mapping[str, Sequence[float]]
"""Arm -> loss by report, the mean of all workers that report any; as far as all of these have come."""


def read_curves(run: Path) -> Curves:
    """Of a run; none where nothing was reported, or no script was run. Raises `AnalysisError`."""
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


def _mean(of_workers: Any) -> list[float]:
    rows = list(of_workers)
    reports = min(map(len, rows))
    means: list[float] = np.mean([row[:reports] for row in rows], axis=0).tolist()
    return means


def common_reports(curves: Curves) -> int:
    """Reports that every arm has."""
    return min(map(len, curves.values()), default=0)


def courses(curves: Curves) -> dict[str, float]:
    """Arm -> mean logarithm of the losses that every arm has.

    None where these are not enough, or one of them is not above 0.
    """
    reports = common_reports(curves)
    shared = {arm: losses[:reports] for arm, losses in curves.items()}
    if reports < ENOUGH or any(loss <= 0 for losses in shared.values() for loss in losses):
        return {}
    return {arm: float(np.mean([log(loss) for loss in losses])) for arm, losses in shared.items()}
