"""Which port gets which rate and queue from the flags."""

from __future__ import annotations

import re
from pathlib import Path

from softswitch.ports.shaping import make_shapes, parse_port_queue, parse_port_rate
from softswitch.queues.shape import (
    BYTE_UNITS,
    DEFAULT_DEPTH,
    RATE_UNITS,
    UNLIMITED,
    Rate,
    Shape,
    packet_depth,
    parse_depth,
    parse_rate,
)

PORTS = (1, 2, 3)
FAST, SLOW = Rate(bits_per_s=10**9), Rate(packets_per_s=10)


def test_flags_of_rates_and_queues_are_parsed() -> None:
    assert parse_port_rate("2=10pps") == ("2", SLOW)
    assert parse_port_rate("*=1gbit") == ("*", FAST)
    assert parse_port_queue("007=8") == ("7", packet_depth(8))


def test_without_flags_there_are_no_queues() -> None:
    assert make_shapes(PORTS, {}, {}) == {}


def test_a_rate_without_queue_gets_bmv2s_queue_and_a_queue_without_rate_is_unlimited() -> None:
    assert make_shapes(PORTS, {"1": SLOW}, {"3": packet_depth(9)}) == {
        1: Shape(SLOW, DEFAULT_DEPTH),
        3: Shape(UNLIMITED, packet_depth(9)),
    }


def test_a_ports_own_flag_overrides_the_flag_for_all_ports() -> None:
    shapes = make_shapes(PORTS, {"*": FAST, "2": SLOW}, {"3": packet_depth(9), "255": packet_depth(1)})
    assert shapes == {
        1: Shape(FAST, DEFAULT_DEPTH),
        2: Shape(SLOW, DEFAULT_DEPTH),
        3: Shape(FAST, packet_depth(9)),
        255: Shape(FAST, packet_depth(1)),
    }


def test_the_documented_units_equal_the_units_of_the_options() -> None:
    """The table of docs/softswitch.md has a number for each unit that is no 1."""
    table = (Path(__file__).parents[3] / "docs" / "softswitch.md").read_text()
    documented = {
        unit: int(number.replace(",", ""))
        for unit, number in re.findall(r"`([kmg]b(?:it)?)` of ([\d,]+)", table)
    }
    units = {**RATE_UNITS, **BYTE_UNITS}
    assert documented == {unit: number for unit, number in units.items() if number > 1}
    for unit, number in documented.items():
        if unit in RATE_UNITS:
            assert parse_rate(f"3{unit}").bits_per_s == 3 * number
        else:
            assert parse_depth(f"3{unit}").bytes == 3 * number
