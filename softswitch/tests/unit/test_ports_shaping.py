"""Which port gets which rate and queue from the flags."""

from __future__ import annotations

from softswitch.ports.shaping import parse_port_queue, parse_port_rate, shapes_of
from softswitch.queues import DEFAULT_DEPTH, Rate, Shape
from softswitch.queues.shape import UNLIMITED, of_packets

PORTS = (1, 2, 3)
FAST, SLOW = Rate(bits=10**9), Rate(packets=10)


def test_flags_are_read() -> None:
    assert parse_port_rate("2=10pps") == ("2", SLOW)
    assert parse_port_rate("*=1gbit") == ("*", FAST)
    assert parse_port_queue("007=8") == ("7", of_packets(8))


def test_without_flags_there_are_no_queues() -> None:
    assert shapes_of(PORTS, {}, {}) == {}


def test_a_port_with_a_rate_has_bmv2s_queue_and_one_with_a_queue_no_rate() -> None:
    assert shapes_of(PORTS, {"1": SLOW}, {"3": of_packets(9)}) == {
        1: Shape(SLOW, DEFAULT_DEPTH),
        3: Shape(UNLIMITED, of_packets(9)),
    }


def test_a_ports_own_goes_before_that_of_all() -> None:
    shapes = shapes_of(PORTS, {"*": FAST, "2": SLOW}, {"3": of_packets(9), "255": of_packets(1)})
    assert shapes == {
        1: Shape(FAST, DEFAULT_DEPTH),
        2: Shape(SLOW, DEFAULT_DEPTH),
        3: Shape(FAST, of_packets(9)),
        255: Shape(FAST, of_packets(1)),
    }
