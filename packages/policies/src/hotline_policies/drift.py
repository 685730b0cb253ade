"""The half-life of a log's drift, and the time until a policy has recovered from a shift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, PULL, Accesses, PolicyLog, count_updates
from nativekit.compile import int64
from nativekit.records import Words

_WINDOWS = 16  # at most 32, the bits of a word of `top_windows`
_MIN_WINDOWS = 3  # a fit needs two lags
_MAX_TOP_KEYS = 20_000
_MIN_KEYS_PER_TOP_KEY = 10
_MIN_LEAD_SHARE = 0.1  # smallest share of the first lead that the fit takes into account
_RECOVERED_SHARE = 0.95
_MAX_HALF_LIFE = 10
"""Half-life as a multiple of the log from which on a lead is taken as constant."""
_MIN_LEAD_LOSS = 0.02
"""Share of its lead that a top k must lose between the first and the last window to count as drift."""


def half_life(log: PolicyLog) -> float | None:
    """Return the steps after which the top k of a window have lost half of their lead; None without drift."""
    [found] = _half_lives(log, np.zeros(len(log.keys), np.uint16), 1)
    return found


def half_lives_by_table(log: PolicyLog) -> list[float | None]:
    """Return the half-life of the keys of each table among themselves."""
    return _half_lives(log, log.table_of, len(log.tables)) if log.tables else []


def _half_lives(log: PolicyLog, group_of: NDArray[np.uint16], groups: int) -> list[float | None]:
    # The log is cut into 16 windows. The lead is the share of a window's updates that the top k of another
    # window have, minus the share of k random keys. The lead falls with the time between the windows; the
    # half-life results from an exponential fitted to the mean lead by lag.
    windows = min(_WINDOWS, log.steps // 2)
    if windows < _MIN_WINDOWS:
        return [None] * groups
    window_starts = [log.starts[log.steps * index // windows] for index in range(windows + 1)]
    keys = np.bincount(group_of, minlength=groups)
    top_counts = np.clip(keys // _MIN_KEYS_PER_TOP_KEY, 1, _MAX_TOP_KEYS)
    members = [np.flatnonzero(group_of == group) for group in range(groups)]
    top_windows = np.zeros(len(log.keys), np.uint32)
    for window in range(windows):
        counts = np.zeros(len(log.keys), np.int64)
        for chunk in log.chunks(int(window_starts[window]), int(window_starts[window + 1])):
            count_updates(chunk, counts)
        for of_group, top_count in zip(members, top_counts.tolist(), strict=True):
            order = np.argsort(-counts[of_group], kind="stable")
            top_windows[of_group[order[:top_count]]] |= np.uint32(1 << window)
    # Updates in each window of the top k of each window, by group; the last column counts all updates.
    hits = np.zeros((windows, groups, windows + 1), np.int64)
    for window in range(windows):
        for chunk in log.chunks(int(window_starts[window]), int(window_starts[window + 1])):
            _count_top(chunk, top_windows, group_of, hits[window])
    random_shares = top_counts / np.maximum(keys, 1)
    return [_fit(hits[:, group], random_shares[group], log.steps / windows) for group in range(groups)]


def _fit(hits: NDArray[np.int64], random_share: float, window_steps: float) -> float | None:
    """Return the half-life of the lead in steps, given the hits [windows, windows + 1] of a group."""
    if not hits[:, -1].all():
        return None  # a window without updates of the group
    shares = hits[:, :-1] / hits[:, -1:]
    lead = [np.mean(np.diagonal(shares, -lag)) - random_share for lag in range(1, len(hits))]
    if lead[-1] > (1 - _MIN_LEAD_LOSS) * lead[0]:
        return None
    # Leads near zero are noise, and their logarithms would dominate the fit.
    points = [(lag, value) for lag, value in enumerate(lead, 1) if value > _MIN_LEAD_SHARE * lead[0]]
    if len(points) < 2:  # the lead is lost within a window
        return window_steps
    slope = np.polyfit([lag for lag, _ in points], np.log2([value for _, value in points]), 1)[0]
    return float(-window_steps / slope) if slope < -1 / (_MAX_HALF_LIFE * len(hits)) else None


def recovery_time(over_time: Sequence[float], shift: float) -> float | None:
    """Return the time from `shift` until the hit rate is at 95 % of its former mean; None if it never is."""
    # `over_time` has the hit rate in each section of the scored part; both times are shares of this part.
    bins = len(over_time)
    rates_before_shift = [hit_rate for index, hit_rate in enumerate(over_time) if (index + 1) / bins <= shift]
    goal_rate = _RECOVERED_SHARE * float(np.mean(rates_before_shift)) if rates_before_shift else 0.0
    recovered_bins = (
        index for index, hit_rate in enumerate(over_time) if index / bins >= shift and hit_rate >= goal_rate
    )
    index = next(recovered_bins, None)
    return None if index is None or not goal_rate else index / bins - shift


@entry_point
def _count_top(
    accesses: Accesses, top_windows: Words, group_of: NDArray[np.uint16], hits: NDArray[np.int64]
) -> None:
    windows = hits.shape[1] - 1
    for access in accesses:
        if int64(access) < PULL:  # an update: only a pull has the bit PULL
            bits, group = int64(top_windows[int64(access) & KEY]), int64(group_of[int64(access) & KEY])
            for window in range(windows):
                hits[group, window] += bits >> window & 1
            hits[group, windows] += 1
