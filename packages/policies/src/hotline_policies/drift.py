"""The half-life of a log's drift, and the time until a policy has recovered from a shift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.compiled import entry_point
from hotline_policies.log import KEY, PULL, Accesses, PolicyLog, count_updates
from nativekit.compile import int64
from nativekit.records import Ints, Words

_WINDOWS = 16  # at most 32, the bits of a word of `top_windows`
_MIN_WINDOWS = 3  # a fit needs two lags
_MAX_TOP_KEYS = 20_000
_MIN_KEYS_PER_TOP_KEY = 10
_MIN_LEAD_SHARE = 0.1  # smallest share of the first lead that the fit takes into account
_RECOVERED_SHARE = 0.95
_MIN_LEAD_LOSS = 0.02
"""Share of its lead that a top k must lose between the first and the last window to count as drift."""


def half_life(log: PolicyLog) -> float | None:
    """Return the steps after which the top k of a window have lost half of their lead; None without drift."""
    # The log is cut into 16 windows. The lead is the share of a window's updates that the top k of another
    # window have, minus the share of k random keys. The lead falls with the time between the windows; the
    # half-life results from an exponential fitted to the mean lead by lag.
    windows = min(_WINDOWS, log.steps // 2)
    if windows < _MIN_WINDOWS:
        return None
    window_starts = [log.starts[log.steps * index // windows] for index in range(windows + 1)]
    top_count = min(_MAX_TOP_KEYS, max(1, len(log.keys) // _MIN_KEYS_PER_TOP_KEY))
    top_windows = np.zeros(len(log.keys), np.uint32)
    for window in range(windows):
        counts = np.zeros(len(log.keys), np.int64)
        for chunk in log.chunks(int(window_starts[window]), int(window_starts[window + 1])):
            count_updates(chunk, counts)
        top_windows[np.argsort(-counts, kind="stable")[:top_count]] |= np.uint32(1 << window)
    # Updates in each window of the top k of each window; the last column counts all updates.
    hits = np.zeros((windows, windows + 1), np.int64)
    for window in range(windows):
        for chunk in log.chunks(int(window_starts[window]), int(window_starts[window + 1])):
            _count_top(chunk, top_windows, hits[window])
    shares = hits[:, :-1] / hits[:, -1:]
    lead = [np.mean(np.diagonal(shares, -lag)) - top_count / len(log.keys) for lag in range(1, windows)]
    if lead[-1] > (1 - _MIN_LEAD_LOSS) * lead[0]:
        return None
    # Leads near zero are noise, and their logarithms would dominate the fit.
    points = [(lag, value) for lag, value in enumerate(lead, 1) if value > _MIN_LEAD_SHARE * lead[0]]
    if len(points) < 2:  # the lead is lost within a window
        return log.steps / windows
    slope = np.polyfit([lag for lag, _ in points], np.log2([value for _, value in points]), 1)[0]
    return float(-log.steps / windows / slope)


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
def _count_top(accesses: Accesses, top_windows: Words, hits: Ints) -> None:
    windows = len(hits) - 1
    for access in accesses:
        if int64(access) < PULL:  # an update: only a pull has the bit PULL
            bits = int64(top_windows[int64(access) & KEY])
            for window in range(windows):
                hits[window] += bits >> window & 1
            hits[windows] += 1
