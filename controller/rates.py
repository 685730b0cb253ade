"""Counters of a switch as rates: what they counted between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.status import Counters


@dataclass(frozen=True, slots=True)
class Reading:
    """What the counters tell at a time, and how that differs from the reading before.

    Names are `rpcs_<outcome>`; `lanes` of workers' fresh RPCs and of these the `hits`; `overflows`; `drops`
    and `drops_<reason>`.
    """

    at_s: float
    """On a clock that does not go back."""
    totals: dict[str, int]
    """What was counted since the pipeline was committed."""
    hit_share: float | None
    """Of the lanes since the reading before, or of all where there are no rates; None without lanes."""
    interval_s: float | None = None
    """Since the reading before; None where there are no rates."""
    per_s: dict[str, float] | None = None
    """Rates over this interval; None for a first reading, and for one of counters that were reset."""
    was_reset: bool = False
    """Some counter went back since the reading before: the pipeline was committed anew."""


def take(counters: Counters, at_s: float, before: Reading | None = None) -> Reading:
    """The reading of counters at a time in s, and the one before it."""
    totals = _totals(counters)
    first = Reading(at_s, totals, _hit_share(totals))
    if before is None or at_s <= before.at_s:
        return first
    counted = {name: total - before.totals[name] for name, total in totals.items()}
    if min(counted.values()) < 0:
        return Reading(at_s, totals, _hit_share(totals), was_reset=True)
    seconds = at_s - before.at_s
    per_s = {name: number / seconds for name, number in counted.items()}
    return Reading(at_s, totals, _hit_share(counted), seconds, per_s)


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


def _hit_share(counted: Mapping[str, int]) -> float | None:
    return counted["hits"] / counted["lanes"] if counted["lanes"] else None
