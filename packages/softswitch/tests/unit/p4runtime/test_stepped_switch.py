"""Steps of the Unix clock under a switch's P4Runtime service: nothing expires, refills, starves or stops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from switch_harness.clocks import STEPS_NS
from switch_harness.stepped_switch import (
    EXPECTED,
    FramesDatapath,
    Observations,
    SteppedDatapath,
    interpreted,
    observe_loop,
    observe_step,
)


@pytest.mark.parametrize("step_ns", [0, *STEPS_NS.values()], ids=["no step", *STEPS_NS])
@pytest.mark.parametrize("make", [FramesDatapath, interpreted], ids=["frames", "interpreter"])
def test_entries_meters_and_digests_do_not_notice_a_step(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], SteppedDatapath], step_ns: int
) -> None:
    """Compiled code and the interpreter do the same: what the monotonic clock alone makes of them."""
    assert observe_step(monkeypatch, make, step_ns) == EXPECTED


@cache
def by_step() -> dict[str, Observations]:
    return observe_loop()


@pytest.mark.parametrize("step", STEPS_NS)
def test_the_compiled_loop_does_not_notice_a_step(step: str) -> None:
    """Frames come by a ring, whose stamps are Unix times, and without stamps from the controller."""
    assert by_step()[step] == EXPECTED
