from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import hypothesis.errors
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.schedule import FaultSchedule
from hotline_simulator.faults.testbed import SimulatedTestbed

_SEARCH = settings(
    max_examples=200, database=None, deadline=None, phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
_FEW_KEYS_SHARE = 0.02  # `share` of a schedule whose operations have a key or two


def shrink(testbed: SimulatedTestbed, failing_schedule: FaultSchedule) -> FaultSchedule:
    """Return a simpler failing schedule: reduce injections first, then network faults, keys and RPCs."""
    for k in range(len(list(_candidates(failing_schedule)))):
        candidates = list(_candidates(failing_schedule))[k]  # of the schedule that failed last
        try:
            failing_schedule = find(
                candidates, lambda candidate: not play_schedule(testbed, candidate).holds, settings=_SEARCH
            )
        except hypothesis.errors.NoSuchExample:
            continue
    return failing_schedule


def _candidates(schedule: FaultSchedule) -> Iterator[st.SearchStrategy[FaultSchedule]]:
    injections = schedule.injections
    yield st.sets(st.integers(0, max(len(injections) - 1, 0))).map(
        lambda chosen_indexes: replace(
            schedule, injections=tuple(injections[k] for k in sorted(chosen_indexes) if k < len(injections))
        )
    )
    yield st.tuples(st.booleans(), st.booleans(), st.booleans()).map(
        lambda factors: replace(
            schedule, loss=factors[0] * schedule.loss, duplication=factors[1] * schedule.duplication,
            reordering=factors[2] * schedule.reordering,
        )
    )  # fmt: skip
    yield st.sampled_from([_FEW_KEYS_SHARE, schedule.share]).map(lambda share: replace(schedule, share=share))
    yield st.integers(1, schedule.hot).map(lambda hot: replace(schedule, hot=hot))
    yield st.integers(1, schedule.rpcs).map(lambda rpcs: _with_rpcs(schedule, rpcs))


def _with_rpcs(schedule: FaultSchedule, rpcs: int) -> FaultSchedule:
    injections = tuple(
        replace(injection, after=min(injection.after, rpcs)) for injection in schedule.injections
    )
    return replace(schedule, rpcs=rpcs, injections=injections)
