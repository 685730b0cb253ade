"""The shortest schedule that fails: hypothesis looks among the parts of one that does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import hypothesis.errors
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from simulator.faults.bed import Bed
from simulator.faults.play import play_schedule
from simulator.faults.schedule import Schedule

_TRIED = settings(
    max_examples=200, database=None, deadline=None, phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def shortest(bed: Bed, failing: Schedule) -> Schedule:
    """A part of a failing schedule that fails, as short and as plain as is found.

    One thing after the other is made less: strikes, faults of the network, keys, and RPCs.
    """
    for less in range(len(list(_parts_of(failing)))):
        parts = list(_parts_of(failing))[less]
        try:
            failing = find(parts, lambda part: not play_schedule(bed, part).holds, settings=_TRIED)
        except hypothesis.errors.NoSuchExample:
            continue
    return failing


def _parts_of(schedule: Schedule) -> Iterator[st.SearchStrategy[Schedule]]:
    """Of each thing the schedules that have less of it, the whole one among them."""
    strikes = schedule.strikes
    yield st.sets(st.integers(0, max(len(strikes) - 1, 0))).map(
        lambda kept: replace(schedule, strikes=tuple(strikes[k] for k in sorted(kept) if k < len(strikes)))
    )
    yield st.tuples(st.booleans(), st.booleans(), st.booleans()).map(
        lambda on: replace(
            schedule, loss=on[0] * schedule.loss, duplication=on[1] * schedule.duplication,
            reordering=on[2] * schedule.reordering,
        )
    )  # fmt: skip
    yield st.sampled_from([0.02, schedule.share]).map(lambda share: replace(schedule, share=share))
    yield st.integers(1, schedule.hot).map(lambda hot: replace(schedule, hot=hot))
    yield st.integers(1, schedule.rpcs).map(lambda rpcs: _with_rpcs(schedule, rpcs))


def _with_rpcs(schedule: Schedule, rpcs: int) -> Schedule:
    strikes = tuple(replace(strike, after=min(strike.after, rpcs)) for strike in schedule.strikes)
    return replace(schedule, rpcs=rpcs, strikes=strikes)
