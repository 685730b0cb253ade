"""All-reduce in trees of two leaves and a root: the shortest schedules that go wrong, and planted bugs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hotline_allreduce.judge.description import ROOT, Description, Event, JudgedSystem, Violation, leaf_at
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.judge.page import page_of
from hotline_allreduce.judge.sets import SetsDescription
from hotline_allreduce.judge.tree import (
    CheckedNode,
    CheckedTreeDescription,
    NaiveTreeDescription,
    PlusPlusDescription,
    PlusPlusNode,
    Reach,
    TreeOutput,
    TreePacket,
)

COPIED, LOST, DELAYED, KILLED, RESTARTED = PacketFault
PAIR_AND_ONE = (0, 0, 1)
"""Leaves of three workers."""


def shortest(protocol: Description, faults: set[PacketFault], max_steps: int) -> dict[Violation, str]:
    found = Judge(protocol, frozenset(faults)).search(max_steps)
    return {violation: ", ".join(states[0].steps) for violation, states in found.items()}


# -- frames between switches


def test_a_frame_to_the_root_is_lost_with_packets_and_a_frame_to_a_leaf_with_answers() -> None:
    steps = {
        frozenset(faults): {
            state.steps[-1]
            for state in Judge(CheckedTreeDescription(), frozenset(faults)).successors(
                Judge(CheckedTreeDescription()).replay(["A0"])[-1]
            )
            if state.steps[-1].startswith("B0")
        }
        for faults in (set[PacketFault](), {LOST})
    }
    assert steps[frozenset()] == {"B0", "B0 (lost to the root)"}
    assert steps[frozenset({LOST})] == {
        "B0", "B0 (lost to the root)", "B0 (lost to leaf 1, lost to leaf 2)",
        "B0 (lost to A)", "B0 (lost to B)", "B0 (lost to A, lost to B)",
        "B0 (lost to leaf 1)", "B0 (lost to leaf 1, lost to B)",
        "B0 (lost to leaf 2)", "B0 (lost to leaf 2, lost to A)",
    }  # fmt: skip


def test_one_frame_between_switches_is_copied_or_held_up_at_a_time() -> None:
    judge = Judge(CheckedTreeDescription(), frozenset({COPIED, DELAYED}))
    [_, held] = judge.replay(["A0 (held up on the way to the root)"])
    assert [frame.destination for _, frame in held.system.held_up] == [ROOT]
    steps = [state.steps[-1] for state in judge.successors(held)]
    assert "[A0 at the root]" in steps and not any("copied" in step for step in steps)
    [*_, copied] = judge.replay(["A0", "B0 (copied to leaf 2)", "[B0 at leaf 2]"])
    assert copied.system.held_up == []
    assert leaf_at(leaf_at(1)) == 1


def test_one_switch_of_a_tree_restarts_in_a_schedule() -> None:
    judge = Judge(CheckedTreeDescription(), frozenset({RESTARTED}))
    [_, restarted] = judge.replay(["leaf 1 restarts"])
    assert not any(state.steps[-1].endswith("restarts") for state in judge.successors(restarted))


# -- the shortest schedules


SCHEDULES: dict[str, tuple[Description, set[PacketFault], int, dict[Violation, str]]] = {
    "naive: a frame is lost between switches": (
        NaiveTreeDescription(), set(), 4, {Violation.STALLED: "A0 (lost to the root)"},
    ),
    "naive: the root answers no repeat": (
        NaiveTreeDescription(drops_repeats=False), {LOST}, 4, {Violation.STALLED: "A0, B0 (lost to A)"},
    ),
    "SwitchML++: a sum is lost between switches": (
        PlusPlusDescription(), set(), 7, {Violation.STALLED: "A0 (lost to the root)"},
    ),
    "SwitchML++: a sum of two workers is lost between switches": (
        PlusPlusDescription(PAIR_AND_ONE), set(), 3, {Violation.STALLED: "C0 (lost to the root)"},
    ),
    "SwitchML++: packets and answers of workers are lost": (
        PlusPlusDescription(has_lossy_links=False), {LOST, KILLED, DELAYED}, 7, {},
    ),
    "SwitchML++: frames between switches are copied": (
        PlusPlusDescription(has_lossy_links=False), {COPIED}, 7,
        {
            Violation.STALLED: "A0, B0 (copied to the root), [B0 at the root]",
            Violation.WRONG: "A0, B0 (copied to leaf 2), A1, B1, B2, [B0 at leaf 2], B2",
        },
    ),
    "SwitchML++: the root restarts": (
        PlusPlusDescription(has_lossy_links=False), {RESTARTED}, 4,
        {Violation.STALLED: "A0, the root restarts"},
    ),
    "sets: an answer is lost": (
        SetsDescription((0, 1)), {LOST}, 4, {Violation.STALLED: "A0, B0 (lost to A)"},
    ),
    "sets: a copy comes late": (
        SetsDescription((0, 1)), {COPIED}, 5, {Violation.LEAKED: "A0, B0, late A0, A1, B1"},
    ),
    "sets: a worker repeats": (
        SetsDescription(PAIR_AND_ONE), set(), 7, {Violation.LEAKED: "A0, B0, A0, C0, A1, B1, C1"},
    ),
    "checks: all but restarts": (
        CheckedTreeDescription(), {LOST, COPIED, KILLED, DELAYED}, 4, {},
    ),
    "checks: a leaf restarts": (
        CheckedTreeDescription(PAIR_AND_ONE), {LOST, RESTARTED}, 4,
        {Violation.STALLED: "A0, B0, C0 (lost to A), leaf 1 restarts"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_shortest_wrong_schedules_of_trees_are_found(name: str) -> None:
    protocol, faults, max_steps, expected = SCHEDULES[name]
    assert shortest(protocol, faults, max_steps) == expected


def test_lost_frames_between_switches_harm_a_tree_with_checks_in_no_schedule() -> None:
    judge = Judge(CheckedTreeDescription(), frozenset({LOST}))
    assert judge.search(20) == {} and judge.is_exhausted


def test_a_part_of_a_sum_overlaps_the_whole_sum_unless_a_timer_ends_between_two_packets() -> None:
    class TimersEndAfterAllPackets(SetsDescription):
        def events(self, system: JudgedSystem) -> Mapping[str, Event]:
            self.has_timers = True
            events = super().events(system)
            self.has_timers = False
            return events

    part_is_sent = "A0, the timer of chunk 0 at leaf 1 ends"
    assert shortest(TimersEndAfterAllPackets(PAIR_AND_ONE), set(), 3) == {Violation.STALLED: part_is_sent}
    assert shortest(SetsDescription(PAIR_AND_ONE, has_timers=True), set(), 6) == {}


def test_a_page_of_a_tree_names_the_switches() -> None:
    judge = Judge(PlusPlusDescription(), frozenset())
    page = page_of(judge, Violation.STALLED, judge.search(1)[Violation.STALLED][0].steps)
    assert "A0 (lost to the root)" in page and "switch, leaf 1, bank 0: count = 1; value = A0" in page


# -- the rules of SwitchML++, as its P4 code has them


def request(sender: int, chunk: int, value: int) -> TreePacket:
    return TreePacket(sender, chunk, value)


def test_a_leaf_of_switchml_plus_plus_sends_one_sum_and_caches_the_result() -> None:
    leaf = PlusPlusNode(is_root=False, children=(0, 1))
    assert leaf.take(request(0, 0, 1)) is None
    assert leaf.take(request(0, 0, 1)) is None  # has been seen
    assert leaf.take(request(1, 0, 2)) == TreeOutput(Reach.UP, request(1, 0, 3))
    assert leaf.take(request(1, 0, 2)) is None  # until the result comes
    result = TreePacket(ROOT, 0, 7, is_result=True)
    assert leaf.take(result) == TreeOutput(Reach.CHILDREN, result)
    answer = leaf.take(request(1, 0, 2))
    assert answer is not None and answer.reach is Reach.SENDER and answer.packet.value == 7


def test_the_root_of_switchml_plus_plus_begins_each_bank_again() -> None:
    root = PlusPlusNode(is_root=True, children=(0, 1))
    for chunk in range(4):
        assert root.take(request(0, chunk, 1)) is None
        output = root.take(request(1, chunk, 2))
        assert output == TreeOutput(Reach.CHILDREN, TreePacket(1, chunk, 3, is_result=True))


# -- planted bugs in the tree with checks, which the judge must find


class LeafDropsRepeats(CheckedNode):
    def take(self, packet: TreePacket) -> TreeOutput | None:
        block = self.blocks[packet.chunk % 2]
        is_repeat = block.chunk == packet.chunk and packet.sender in block.sources
        return None if is_repeat and not packet.is_result and block.result is None else super().take(packet)


class RootDropsRepeats(CheckedNode):
    def take(self, packet: TreePacket) -> TreeOutput | None:
        output = super().take(packet)
        return None if self.is_root and output is not None and output.reach is Reach.SENDER else output


class LeafCachesNoResult(CheckedNode):
    """Takes a worker that lacks the answer for the first one of a new block."""

    def take(self, packet: TreePacket) -> TreeOutput | None:
        output = super().take(packet)
        if packet.is_result and output is not None:
            self.blocks[packet.chunk % 2] = type(self.blocks[0])()
        return output


class NumbersAreNotCompared(CheckedNode):
    """Adds late copies to the block that has taken the place of their own."""

    def take(self, packet: TreePacket) -> TreeOutput | None:
        block = self.blocks[packet.chunk % 2]
        is_late = not packet.is_result and packet.chunk < block.chunk
        return super().take(packet._replace(chunk=block.chunk) if is_late else packet)


class EachLevelAddsRepeats(CheckedNode):
    def take(self, packet: TreePacket) -> TreeOutput | None:
        self.blocks[packet.chunk % 2].sources -= {packet.sender}
        return super().take(packet)


PLANTED: list[tuple[type[CheckedNode], tuple[int, ...], int, set[PacketFault], Violation, int]] = [
    (LeafDropsRepeats, (0, 1), 2, set(), Violation.STALLED, 1),
    (RootDropsRepeats, (0, 1), 2, {LOST}, Violation.STALLED, 2),
    (LeafCachesNoResult, PAIR_AND_ONE, 1, {LOST}, Violation.STALLED, 3),
    (NumbersAreNotCompared, (0, 1), 3, {COPIED}, Violation.WRONG, 6),
    (EachLevelAddsRepeats, (0, 1), 1, set(), Violation.WRONG, 3),
]


@pytest.mark.parametrize(
    ("broken", "leaf_of", "chunks", "faults", "violation", "steps"),
    PLANTED,
    ids=[broken.__name__ for broken, *_ in PLANTED],
)
def test_planted_bugs_of_trees_are_found(
    broken: type[Any], leaf_of: tuple[int, ...], chunks: int, faults: set[PacketFault],
    violation: Violation, steps: int,
) -> None:  # fmt: skip
    class Planted(CheckedTreeDescription):
        def node(self, is_root: bool, children: tuple[int, ...]) -> CheckedNode:
            node: CheckedNode = broken(is_root, children)
            return node

    found = Judge(Planted(leaf_of, chunks), frozenset(faults)).search(steps)
    assert len(found[violation][0].steps) == steps
    assert Judge(CheckedTreeDescription(leaf_of, chunks), frozenset(faults)).search(steps) == {}
