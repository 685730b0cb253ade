"""The shortest schedule that fails: hypothesis looks among the parts of one that does."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.errors
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from simulator.faults.bed import Bed
from simulator.faults.play import play_schedule
from simulator.faults.schedule import Schedule

_MOST = 300
"""Schedules that are tried."""


def shortest(bed: Bed, failing: Schedule) -> Schedule:
    """A part of a failing schedule that fails, as short and as plain as is found; itself, if nothing else
    is."""
    tried = settings(
        max_examples=_MOST, database=None, deadline=None, phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        return find(parts_of(failing), lambda part: not play_schedule(bed, part).holds, settings=tried)
    except hypothesis.errors.NoSuchExample:
        return failing


def parts_of(schedule: Schedule) -> st.SearchStrategy[Schedule]:
    """Schedules with less: fewer RPCs, strikes, keys, and a better network. Each part is whole half the
    time."""
    indexes = range(len(schedule.strikes))

    def part(
        rpcs: int, kept: set[int], share: float, hot: int, rates: tuple[float, float, float]
    ) -> Schedule:
        strikes = tuple(
            replace(schedule.strikes[k], after=min(schedule.strikes[k].after, rpcs)) for k in sorted(kept)
        )
        loss, duplication, reordering = rates
        return replace(
            schedule, rpcs=rpcs, strikes=strikes, share=share, hot=hot, loss=loss, duplication=duplication,
            reordering=reordering,
        )  # fmt: skip

    return st.builds(
        part,
        st.one_of(st.integers(1, schedule.rpcs), st.just(schedule.rpcs)),
        st.one_of(st.sets(st.sampled_from(indexes)) if indexes else st.just(set()), st.just(set(indexes))),
        st.one_of(st.just(0.02), st.just(schedule.share)),
        st.one_of(st.integers(1, schedule.hot), st.just(schedule.hot)),
        st.tuples(
            *(
                st.one_of(st.just(0.0), st.just(rate))
                for rate in (schedule.loss, schedule.duplication, schedule.reordering)
            )
        ),
    )
