"""How fast a log drifts, and how fast a policy follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.policies.compiling import entry_point, int64
from studies.policies.log import KEY, PULL, Log

_WINDOWS = 16
_TOP = 20_000
_PART = 10
"""The top k that are followed are at most one key of so many."""
_REGAINED = 0.95
_NOTICED = 0.02
"""Part of its lead that a top k must lose from the first to the last window, for that to be a drift."""


def half_life(log: Log) -> float | None:
    """Steps after which the top k of a window have lost half of the lead that they had; None: none is seen.

    The log is cut into 16 windows. What the top k of one take in another falls with the time between them,
    to what k random keys take; the half-life is that of the exponential through these means.
    """
    windows = min(_WINDOWS, log.steps // 2)
    if windows < 3:
        return None
    edges = [log.starts[log.steps * at // windows] for at in range(windows + 1)]
    top = min(_TOP, max(1, len(log.keys) // _PART))
    in_top = np.zeros(len(log.keys), np.uint32)
    for window in range(windows):
        counts = np.zeros(len(log.keys), np.int64)
        for chunk in log.chunks(int(edges[window]), int(edges[window + 1])):
            _count(chunk, counts)
        in_top[np.argsort(-counts, kind="stable")[:top]] |= np.uint32(1 << window)
    taken = np.zeros((windows, windows + 1), np.int64)
    for window in range(windows):
        for chunk in log.chunks(int(edges[window]), int(edges[window + 1])):
            _take(chunk, in_top, taken[window])
    shares = taken[:, :-1] / taken[:, -1:]
    lead = [np.mean(np.diagonal(shares, -lag)) - top / len(log.keys) for lag in range(1, windows)]
    if lead[-1] > (1 - _NOTICED) * lead[0]:
        return None
    # What has lost nearly all of it says nothing of when.
    told = [(lag, value) for lag, value in enumerate(lead, 1) if value > 0.1 * lead[0]]
    if len(told) < 2:
        return log.steps / windows
    slope = np.polyfit([lag for lag, _ in told], np.log2([value for _, value in told]), 1)[0]
    return float(-log.steps / windows / slope)


def regained(over_time: Sequence[float], shift: float) -> float | None:
    """Part of the time from a shift, at this part of it, until a share was 95 % of what it had been again."""
    bins = len(over_time)
    before = [share for at, share in enumerate(over_time) if (at + 1) / bins <= shift]
    goal = _REGAINED * float(np.mean(before)) if before else 0.0
    behind = (at for at, share in enumerate(over_time) if at / bins >= shift and share >= goal)
    at = next(behind, None)
    return None if at is None or not goal else at / bins - shift


@entry_point
def _count(accesses: Any, counts: Any) -> None:
    for access in accesses:
        counts[int64(access) & KEY] += int64(access) < PULL


@entry_point
def _take(accesses: Any, in_top: Any, taken: Any) -> None:
    """Add up the updates that the top k of each window take, and behind them all updates."""
    windows = len(taken) - 1
    for access in accesses:
        if int64(access) < PULL:
            bits = int64(in_top[int64(access) & KEY])
            for window in range(windows):
                taken[window] += bits >> window & 1
            taken[windows] += 1
