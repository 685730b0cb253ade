"""Explaining changes nothing, and a trace is complete: replayed, it gives the same frames."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import examples
from switch_harness.replay import ObservedPair
from switch_harness.state import StateDrawer, cells

Draw = Callable[[Random], tuple[int, bytes]]
LIMITS = settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", CONSTRUCTS)
@LIMITS
@given(random=st.randoms(use_true_random=False), steps=st.integers(1, 30))
def test_a_trace_reports_all_and_changes_nothing(name: str, random: Random, steps: int) -> None:
    construct = CONSTRUCTS[name]
    pair, now = ObservedPair(compiled(name), construct.prepare, random.choice([1, 8])), 0
    for _ in range(steps):
        now += random.choice([0, 1, 1_000, 400_000])
        pair.process(*construct.frame(random), now)
    pair.check_state()


@pytest.mark.parametrize("name", CONSTRUCTS)
@LIMITS
@given(random=st.randoms(use_true_random=False), steps=st.integers(1, 30))
def test_a_trace_changes_nothing_for_any_writes_of_the_control_plane(
    name: str, random: Random, steps: int
) -> None:
    construct = CONSTRUCTS[name]
    pair, now = ObservedPair(compiled(name), construct.prepare), 0
    drawer = StateDrawer(pair.alone, random)
    for _ in range(steps):
        if drawer.kinds and random.random() < 0.3:
            write = drawer.draw()
            assert write(pair.observed) == write(pair.alone)
            continue
        port, frame = construct.frame(random)
        now += random.choice([0, 1, 1_000, 400_000])
        outputs = pair.observed.process(port, frame, now, now + 3)
        assert outputs == pair.alone.process(port, frame, now, now + 3)
    assert cells(pair.observed, drawer.entries) == cells(pair.alone, drawer.entries)
