"""The interpreter's meters: colours by rate, burst and time, as BMv2 counts tokens."""

from __future__ import annotations

import pytest

from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked
from softswitch.pipeline import ActionCall, MeterConfig
from softswitch.v1model import Colour
from switch_harness.constructs import compiled, insert

PROGRAM = compiled("meters")
GREEN, YELLOW, RED = Colour
SECOND = 1_000_000
NONE = 9
"""What the program writes where no meter is executed."""


@pytest.fixture
def pipeline() -> InterpretedPipeline:
    return InterpretedPipeline(PROGRAM)


def send(
    pipeline: InterpretedPipeline,
    now: int,
    *,
    index: int = 4,
    first: int = 0,
    second: int = 0,
    size: int = 10,
) -> tuple[int, ...]:
    """Return colours: by packets, by bytes, of table `first`, of table `second` and what its action adds."""
    [output] = pipeline.process(1, bytes([index, first, second, 0, 0, 0, 0]).ljust(size, b"\0"), now, now)
    return tuple(output.frame[3:7])


def test_an_unconfigured_meter_is_green(pipeline: InterpretedPipeline) -> None:
    assert all(send(pipeline, 0, index=0) == (GREEN, GREEN, 0, 0) for _ in range(10))
    assert send(pipeline, 0) == (NONE, NONE, 0, 0)


def test_packets_are_coloured_by_two_token_buckets(pipeline: InterpretedPipeline) -> None:
    pipeline.cells.write_meter("Measure.packets", 1, MeterConfig(1, 2, 2, 4))

    def colours(now: int, count: int) -> list[int]:
        return [send(pipeline, now, index=1)[0] for _ in range(count)]

    assert colours(SECOND, 6) == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
    # after half a second the peak bucket has a token, after a second another, and the committed one its first
    assert colours(SECOND * 3 // 2, 2) == [YELLOW, RED]
    assert colours(2 * SECOND, 2) == [GREEN, RED]
    # buckets hold no more than their bursts
    assert colours(100 * SECOND, 5) == [GREEN, GREEN, YELLOW, YELLOW, RED]
    assert send(pipeline, 100 * SECOND, index=0)[0] == GREEN


def test_a_byte_meter_counts_the_length_of_the_frame(pipeline: InterpretedPipeline) -> None:
    pipeline.cells.write_meter("Measure.octets", 2, MeterConfig(1, 25, 1, 60))
    sizes = (20, 10, 30, 10, 7)
    assert [send(pipeline, 0, index=2, size=size)[1] for size in sizes] == [GREEN, YELLOW, YELLOW, RED, RED]


def test_a_new_configuration_fills_the_buckets_and_a_removed_one_makes_packets_green(
    pipeline: InterpretedPipeline,
) -> None:
    config = MeterConfig(1, 1, 1, 1)
    pipeline.cells.write_meter("Measure.packets", 0, config)
    assert [send(pipeline, 0, index=0)[0] for _ in range(2)] == [GREEN, RED]
    pipeline.cells.write_meter("Measure.packets", 0, config)
    assert [send(pipeline, 0, index=0)[0] for _ in range(2)] == [GREEN, RED]
    pipeline.cells.write_meter("Measure.packets", 0, None)
    assert [send(pipeline, 0, index=0)[0] for _ in range(2)] == [GREEN, GREEN]


def test_direct_meters_belong_to_entries_and_come_before_the_action(pipeline: InterpretedPipeline) -> None:
    first = insert(pipeline, "Measure.first", (1,), ActionCall("Measure.first_hit"))
    insert(pipeline, "Measure.first", (2,), ActionCall("Measure.first_hit"))
    second = insert(
        pipeline, "Measure.second", (Masked(0x80, 0x80),), ActionCall("Measure.second_hit", (16,))
    )
    pipeline.tables.set_meter(first, MeterConfig(1, 1, 1, 2))
    pipeline.tables.set_meter(second, MeterConfig(1, 10, 1, 20))
    got = [send(pipeline, 0, first=1, second=0x81)[2:] for _ in range(3)]
    assert got == [(GREEN, 16 + GREEN), (YELLOW, 16 + YELLOW), (RED, 16 + RED)]
    assert send(pipeline, 0, first=2)[2] == GREEN
    pipeline.tables.set_meter(first, None)
    assert send(pipeline, 0, first=1)[2] == GREEN
