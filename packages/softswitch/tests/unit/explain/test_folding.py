"""Traces that people read: addresses, lines of at most 80 columns, and equal lanes in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
import pytest

from softswitch.explain import events as ev
from softswitch.explain.folding import fold_names, merge, repetitions, shape_of
from softswitch.explain.notation import written
from softswitch.explain.tree import LINE_WIDTH, draw, make_tree
from softswitch.testing import Switch
from switch_harness.exercises import SOURCES

LANES = 32


@pytest.mark.parametrize(
    ("name", "width", "text", "expected"),
    [
        ("hdr.ethernet.dstAddr", 48, "0xb", "00:00:00:00:00:0b"),
        ("meta.server.mac", 48, "0x20000000201", "02:00:00:00:02:01"),
        ("ipv4.src_addr", 32, "0xa000101", "10.0.1.1"),
        ("dstAddr", 32, "0xa000000/8", "10.0.0.0/8"),
        ("meta.next_hop", 32, "0xa000101", "10.0.1.1"),
        ("ipv6.src_addr", 128, "0x20010db8000000000000000000000001", "2001:db8::1"),
        ("rpc.seq", 32, "0x40", "0x40"),
        ("meta.strip", 32, "0x40", "0x40"),
        ("ethernet.timestamp", 48, "0x40", "0x40"),
        ("ipv4.src_addr", 16, "0x40", "0x40"),
    ],
)
def test_addresses_are_written_as_people_do_and_other_fields_as_numbers(
    name: str, width: int, text: str, expected: str
) -> None:
    assert written(name, width, text) == expected


def test_numbers_that_count_up_are_a_range_and_further_numbers_a_list() -> None:
    lanes = [f"lane_{lane:02} = {hex(7 * lane)} (was 0x0)" for lane in range(LANES)]
    assert merge(lanes) == "lane_00-31 = {0x0, 0x7, … 0xd9} (was 0x0)"
    assert merge(lanes[:3]) == "lane_00-02 = {0x0, 0x7, 0xe} (was 0x0)"


def test_three_blocks_of_one_shape_are_one_run_and_two_blocks_are_not() -> None:
    items = ["begin", *(f"{word} {lane}" for lane in range(3) for word in "ab"), "c 1", "c 2"]
    assert [len(run) for run in repetitions(items, shape_of)] == [1, 3, 1, 1]


def test_names_that_skip_a_number_stay_apart() -> None:
    assert fold_names(["t_0 hit", "t_0 miss", "t_1 hit", "t_2 hit", "u_0", "u_2", "u_4"]) == [
        "t_0-2 hit",
        "t_0 miss",
        "u_0",
        "u_2",
        "u_4",
    ]


def lines_of(event_of: Callable[[int, ev.Context], ev.Event]) -> Sequence[str]:
    context = ev.Context(1, 0, "ingress", source="programs/lanes.p4:12")
    return [
        click.unstyle(line) for line in draw(make_tree([event_of(lane, context) for lane in range(LANES)]))
    ]


def test_equal_lanes_are_one_line() -> None:
    lines = lines_of(lambda lane, at: ev.AssignEvent(at, f"sum_{lane:02}", 32, "0x0", hex(lane), True))
    assert [line.split() for line in lines[2:]] == [
        ["└─", "sum_00-31", "=", "0x0-0x1f", "(was", "0x0)", "(32", "times)", "programs/lanes.p4:12"]
    ]


@pytest.mark.parametrize("holds", [True, False])
def test_true_and_false_conditions_are_shown_in_full(holds: bool) -> None:
    text = "hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && meta.is_known == 1 && hdr.udp.dst_port == 5001"
    lines = lines_of(lambda _, at: ev.ConditionEvent(at, text, holds))
    shown = " ".join(line.replace("programs/lanes.p4:12", "").strip("│└─ ") for line in lines[2:])
    assert " ".join(shown.split()) == f"if {text}: {str(holds).lower()} (32 times)"
    assert max(map(len, lines)) <= LINE_WIDTH


@pytest.mark.parametrize(
    ("left", "shown"), [(1, "if !(hdr.probe.left == 1): false"), (2, "if hdr.probe.left == 2: true")]
)
def test_a_condition_in_an_action_is_shown_in_full(left: int, shown: str) -> None:
    """One of a lone `return` is negated by the compiler."""
    with Switch(SOURCES / "jumps.p4") as switch:
        switch.run("table_add chosen leave_early 1 =>")
        switch.process(1, bytes([1, left, 4, *bytes(10)]))
        assert shown in switch.explain()
