"""Rates of the switch's counters between two readings."""

from __future__ import annotations

from typing import Any

import pytest

from controller.status import drop_reasons, take_reading
from tests.harness.watched import FIRST, SECOND, a_reading


def test_rates_are_differences_of_counters_over_the_interval() -> None:
    reading = take_reading(SECOND, 12.5, take_reading(FIRST, 10.0))
    assert (reading.interval_s, reading.was_reset) == (2.5, False)
    # Of 400 lanes 100 hit.
    assert reading.hit_share == 0.25
    assert reading.per_s == dict.fromkeys((f"drops_{reason}" for reason in drop_reasons()), 0) | {
        "rpcs_answered": 200, "rpcs_forwarded": 80, "rpcs_relayed": 80, "rpcs_duplicates": 0,
        "lanes": 160, "hits": 40, "overflows": 0.4, "drops": 2, "drops_fragment": 2,
    }  # fmt: skip
    assert reading.totals == dict.fromkeys((f"drops_{reason}" for reason in drop_reasons()), 0) | {
        "rpcs_answered": 1500, "rpcs_forwarded": 700, "rpcs_relayed": 699, "rpcs_duplicates": 1,
        "lanes": 1400, "hits": 1000, "overflows": 1, "drops": 9, "drops_fragment": 5, "drops_stale_turn": 4,
    }  # fmt: skip


def test_a_first_reading_has_no_rates() -> None:
    reading = take_reading(FIRST, 10.0)
    assert (reading.interval_s, reading.per_s, reading.was_reset) == (None, None, False)
    assert reading.hit_share == 0.9
    assert take_reading(a_reading(), 10.0).hit_share is None


def test_without_lanes_there_is_no_hit_share() -> None:
    reading = take_reading(FIRST, 11.0, take_reading(FIRST, 10.0))
    assert reading.hit_share is None and reading.per_s is not None
    assert set(reading.per_s.values()) == {0}


def test_without_elapsed_time_there_are_no_rates() -> None:
    reading = take_reading(SECOND, 10.0, take_reading(FIRST, 10.0))
    assert (reading.per_s, reading.interval_s, reading.was_reset) == (None, None, False)
    assert reading.totals["rpcs_answered"] == 1500


@pytest.mark.parametrize(
    "more",
    [
        {"rpcs": (8, 8, 9, 8)}, {"hits": 8, "misses": 9}, {"hits": 9, "misses": 8}, {"overflows": 8},
        {"no_route": 8},
    ],
)  # fmt: skip
def test_a_counter_that_decreases_was_reset(more: dict[str, Any]) -> None:
    full: dict[str, Any] = {
        "rpcs": (9, 9, 9, 9), "hits": 9, "misses": 9, "overflows": 9, "no_route": 9,
    }  # fmt: skip
    reading = take_reading(a_reading(**full | more), 11.0, take_reading(a_reading(**full), 10.0))
    assert (reading.was_reset, reading.per_s, reading.interval_s) == (True, None, None)
    lanes = a_reading(**full | more).all_lanes()
    assert reading.hit_share == lanes.hits / (lanes.hits + lanes.misses)


def test_after_a_reset_there_are_rates_again() -> None:
    reset = take_reading(a_reading((10, 0, 0, 0)), 20.0, take_reading(FIRST, 10.0))
    assert reset.was_reset
    reading = take_reading(a_reading((30, 0, 0, 0)), 22.0, reset)
    assert not reading.was_reset and reading.per_s is not None
    assert reading.per_s["rpcs_answered"] == 10
