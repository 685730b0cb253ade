"""How fast a log drifts, and how fast a policy follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nativekit.compile import int64
from nativekit.records import Ints, Words
from studies.compile import entry_point
from studies.policies.log import KEY, PULL, Accesses, Log

_WINDOWS = 16
_TOP = 20_000
_MIN_KEYS_PER_TOP_KEY = 10
_RECOVERED_SHARE = 0.95
_MIN_LOSS = 0.02
"""Part of its lead that a top k must lose between the first and the last window to count as drift."""


def half_life(log: Log) -> float | None:
    """Return the steps after which the top k of a window have lost half of their lead; None without drift."""
    # The log is cut into 16 windows. The lead is the share of a window's updates that the top k of another
    # window have, minus the share of k random keys. The lead falls with the time between the windows; the
    # half-life is that of an exponential fitted to the mean lead by lag.
    windows = min(_WINDOWS, log.steps // 2)
    if windows < 3:
        return None
    edges = [log.starts[log.steps * at // windows] for at in range(windows + 1)]
    top = min(_TOP, max(1, len(log.keys) // _MIN_KEYS_PER_TOP_KEY))
    in_top = np.zeros(len(log.keys), np.uint32)
    for window in range(windows):
        counts = np.zeros(len(log.keys), np.int64)
        for chunk in log.chunks(int(edges[window]), int(edges[window + 1])):
            _count(chunk, counts)
        in_top[np.argsort(-counts, kind="stable")[:top]] |= np.uint32(1 << window)
    hits = np.zeros((windows, windows + 1), np.int64)
    for window in range(windows):
        for chunk in log.chunks(int(edges[window]), int(edges[window + 1])):
            _count_top(chunk, in_top, hits[window])
    shares = hits[:, :-1] / hits[:, -1:]
    lead = [np.mean(np.diagonal(shares, -lag)) - top / len(log.keys) for lag in range(1, windows)]
    if lead[-1] > (1 - _MIN_LOSS) * lead[0]:
        return None
    # Leads near zero are noise, and their logarithms would dominate the fit.
    points = [(lag, value) for lag, value in enumerate(lead, 1) if value > 0.1 * lead[0]]
    if len(points) < 2:
        return log.steps / windows
    slope = np.polyfit([lag for lag, _ in points], np.log2([value for _, value in points]), 1)[0]
    return float(-log.steps / windows / slope)


def recovery_time(over_time: Sequence[float], shift: float) -> float | None:
    """Return the time, as a share of the log, until a hit rate is at 95 % of its former mean, or None."""
    bins = len(over_time)
    before = [share for at, share in enumerate(over_time) if (at + 1) / bins <= shift]
    goal = _RECOVERED_SHARE * float(np.mean(before)) if before else 0.0
    recovered_bins = (at for at, share in enumerate(over_time) if at / bins >= shift and share >= goal)
    at = next(recovered_bins, None)
    return None if at is None or not goal else at / bins - shift


@entry_point
def _count(accesses: Accesses, counts: Ints) -> None:
    for access in accesses:
        counts[int64(access) & KEY] += int64(access) < PULL


@entry_point
def _count_top(accesses: Accesses, in_top: Words, hits: Ints) -> None:
    windows = len(hits) - 1
    for access in accesses:
        if int64(access) < PULL:
            bits = int64(in_top[int64(access) & KEY])
            for window in range(windows):
                hits[window] += bits >> window & 1
            hits[windows] += 1
