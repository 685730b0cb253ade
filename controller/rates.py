"""Readings of the switch's counters, and their rates between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.status import Counters


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters at one time, and their rates since the previous reading.

    Keys of `totals` and `per_s`: `rpcs_<outcome>`; `lanes` of workers' RPCs, without retransmissions, and
    the `hits` among them; `overflows`; `drops` and `drops_<reason>`.
    """

    at_s: float
    """Time of the reading on a monotonic clock, in s."""
    totals: dict[str, int]
    """Counts since the pipeline was committed."""
    hit_share: float | None
    """Share of lanes that hit: in the interval or, if it is None, since the commit; None without lanes."""
    interval_s: float | None = None  # time since the previous reading
    per_s: dict[str, float] | None = None
    """Counts per second over the interval; None for a first reading and after a reset."""
    was_reset: bool = False
    """Whether a counter decreased since the previous reading, because the pipeline was committed again."""


def take_reading(counters: Counters, at_s: float, previous: Reading | None = None) -> Reading:
    totals = _totals(counters)
    first_reading = Reading(at_s, totals, _hit_share(totals))
    if previous is None or at_s <= previous.at_s:
        return first_reading
    increases = {name: total - previous.totals[name] for name, total in totals.items()}
    if min(increases.values()) < 0:
        return Reading(at_s, totals, _hit_share(totals), was_reset=True)
    interval_s = at_s - previous.at_s
    per_s = {name: increase / interval_s for name, increase in increases.items()}
    return Reading(at_s, totals, _hit_share(increases), interval_s, per_s)


def _totals(counters: Counters) -> dict[str, int]:
    lanes = counters.all_lanes()
    return {
        **{f"rpcs_{outcome}": number for outcome, number in counters.rpcs.items()},
        "lanes": lanes.hits + lanes.misses,
        "hits": lanes.hits,
        "overflows": lanes.overflows,
        "drops": sum(counters.drops.values()),
        **{f"drops_{reason}": number for reason, number in counters.drops.items()},
    }


def _hit_share(counts: Mapping[str, int]) -> float | None:
    return counts["hits"] / counts["lanes"] if counts["lanes"] else None
