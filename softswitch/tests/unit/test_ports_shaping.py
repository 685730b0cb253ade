"""Which port gets which rate and queue from the flags."""

from __future__ import annotations

from softswitch.ports.shaping import make_shapes, parse_port_queue, parse_port_rate
from softswitch.queues.shape import DEFAULT_DEPTH, UNLIMITED, Rate, Shape, packet_depth

PORTS = (1, 2, 3)
FAST, SLOW = Rate(bits_per_s=10**9), Rate(packets_per_s=10)


def test_flags_are_read() -> None:
    assert parse_port_rate("2=10pps") == ("2", SLOW)
    assert parse_port_rate("*=1gbit") == ("*", FAST)
    assert parse_port_queue("007=8") == ("7", packet_depth(8))


def test_without_flags_there_are_no_queues() -> None:
    assert make_shapes(PORTS, {}, {}) == {}


def test_a_port_with_a_rate_has_bmv2s_queue_and_one_with_a_queue_no_rate() -> None:
    assert make_shapes(PORTS, {"1": SLOW}, {"3": packet_depth(9)}) == {
        1: Shape(SLOW, DEFAULT_DEPTH),
        3: Shape(UNLIMITED, packet_depth(9)),
    }


def test_a_ports_own_goes_before_that_of_all() -> None:
    shapes = make_shapes(PORTS, {"*": FAST, "2": SLOW}, {"3": packet_depth(9), "255": packet_depth(1)})
    assert shapes == {
        1: Shape(FAST, DEFAULT_DEPTH),
        2: Shape(SLOW, DEFAULT_DEPTH),
        3: Shape(FAST, packet_depth(9)),
        255: Shape(FAST, packet_depth(1)),
    }
