"""ATP with a switch at each of two levels: schedules that go wrong, and a planted bug."""

from __future__ import annotations

import pytest

from hotline_allreduce.atp.model.two_levels import AtpTreeDescription
from hotline_allreduce.atp.packet import AtpPacket
from hotline_allreduce.judge.description import ROOT, JudgedSystem, SentFrame, Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from packages.allreduce.tests.unit.judge.test_tree import shortest

COPIED, LOST, DELAYED, KILLED, RESTARTED = PacketFault


def test_a_leaf_sends_the_sum_of_its_workers_and_the_root_answers_when_all_leaves_have_sent() -> None:
    protocol = AtpTreeDescription()
    system = protocol.system()
    packets = [next(iter(protocol.sendable(worker, system.hosts[worker]))).packet for worker in range(3)]
    assert protocol.at_switch(system, packets[0]) == []
    [sum_of_leaf] = protocol.at_switch(system, packets[1])
    assert sum_of_leaf.destination == ROOT and sum_of_leaf.packet.bitmap == 0b011
    assert sum_of_leaf.packet.values == (protocol.addend(0, "1.1") + protocol.addend(1, "1.1"),)
    assert protocol.at_next_switch(system, *sum_of_leaf) == []
    [alone] = protocol.at_switch(system, packets[2])
    answers = protocol.at_next_switch(system, *alone)
    assert {answer.packet.values for answer in answers} == {(protocol.expected_sum("1.1"),)}
    receivers = [frame.destination for each in answers for frame in protocol.at_next_switch(system, *each)]
    assert receivers == [0, 1, 2] and not protocol.has_leak(system)


@pytest.mark.parametrize("faults", [set[PacketFault](), {DELAYED}, {KILLED}])
def test_without_lost_answers_and_copies_no_fault_is_found_in_four_steps(faults: set[PacketFault]) -> None:
    assert shortest(AtpTreeDescription(), faults, 4) == {}


SCHEDULES = {
    "the acknowledgement is lost to a leaf": (
        LOST, ("A1.1", "B1.1", "C1.1 (lost to leaf 1)", "C2.1", "resent A1.1"),
    ),
    "a leaf's sum comes to the root a second time": (
        COPIED, ("A1.1", "B1.1 (copied to the root)", "C1.1", "[B1.1 at the root]", "C2.1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "steps"), SCHEDULES.values(), ids=SCHEDULES)
def test_a_cell_mixes_sums_of_two_tensors_unless_tensors_are_compared(
    fault: PacketFault, steps: tuple[str, ...]
) -> None:
    """As with one level: cells compare sequence numbers, which start anew in each tensor."""
    for check in (False, True):
        judge = Judge(AtpTreeDescription(check=check), frozenset({fault}))
        last = judge.replay(steps)[-1].system
        assert (Violation.WRONG in judge.violations(last)) is not check


class UnfreedLeaf(AtpTreeDescription):
    """Leaves pass acknowledgements on, and keep their cells."""

    def _at_leaf(self, system: JudgedSystem, leaf: int, packet: AtpPacket) -> list[SentFrame]:
        return [SentFrame(worker, packet) for worker in self.workers_of(leaf)]


def test_the_judge_finds_a_leaf_without_a_release_of_cells() -> None:
    assert Violation.LEAKED in shortest(UnfreedLeaf(check=True), set(), 6)
