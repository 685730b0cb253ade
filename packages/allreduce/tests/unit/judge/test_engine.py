"""The judge finds known wrong schedules and planted bugs, and nothing where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hotline_allreduce.atp.model.description import AtpDescription
from hotline_allreduce.judge.description import Description, JudgedSystem, Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.switchml.model.description import CHECKED, EXACT, PUBLISHED, SwitchMLDescription
from hotline_allreduce.switchml.model.rules import SwitchAnswer, SwitchMLSwitchModel
from hotline_allreduce.switchml.packet import SwitchMLPacket

SPRAYING = frozenset({PacketFault.COPIED})


def shortest(
    protocol: Description, faults: frozenset[PacketFault], max_steps: int
) -> dict[Violation, list[str]]:
    found = Judge(protocol, faults).search(max_steps)
    return {violation: [", ".join(state.steps) for state in states] for violation, states in found.items()}


def test_late_copies_of_packets_make_switchml_sums_wrong() -> None:
    """A's copy of chunk 0 comes after A1 and clears A's bit in the other set, where B1 or A1 is the last."""
    found = shortest(PUBLISHED, SPRAYING, 7)
    assert found.pop(Violation.WRONG) == [
        "A0, B0, A1, late A0, A1",
        "A0, B0, A1, late A0, B1",
        "A0, B0, B1, late B0, A1",
        "A0, B0, B1, late B0, B1",
    ]
    assert found.pop(Violation.STALLED)[0] == "A0, B0, A1, B1, late A0, late A1, late A0"
    assert not found


def test_losses_alone_do_not_harm_switchml() -> None:
    assert shortest(PUBLISHED, frozenset({PacketFault.LOST}), 8) == {}


@pytest.mark.parametrize("protocol", [CHECKED, EXACT], ids=["checked", "exact"])
def test_the_check_mends_switchml(protocol: SwitchMLDescription) -> None:
    assert shortest(protocol, SPRAYING | {PacketFault.LOST, PacketFault.KILLED}, 8) == {}


def test_three_workers_have_wrong_sums_only_without_the_check() -> None:
    assert len(shortest(SwitchMLDescription(workers=3), SPRAYING, 7)[Violation.WRONG][0].split(", ")) == 7
    assert shortest(SwitchMLDescription(workers=3, check=True), SPRAYING, 7) == {}


def test_a_switch_that_forgets_stalls_its_job() -> None:
    """A worker that has its sum does not send again what another one lacks."""
    found = shortest(CHECKED, frozenset({PacketFault.LOST, PacketFault.RESTARTED}), 4)
    assert found == {
        Violation.STALLED: ["A0, B0 (lost to A), the switch restarts", *found[Violation.STALLED][1:]]
    }


ATP_SCHEDULES = {
    "nothing but losses of packets": {},
    "acknowledgements are lost": {
        Violation.STALLED: "A1.1, B1.1 (lost to A), resent B2.1, resent A1.1 (lost to A)",
        Violation.WRONG: "A1.1, B1.1 (lost to A), B2.1, resent A1.1",
        Violation.DIFFERENT: "A1.1, B1.1 (lost to A), B2.1, resent A1.1",
    },
    "copies come, also late": {
        Violation.WRONG: "A1.1, B1.1, late copied A1.1, B2.1",
        Violation.LEAKED: "A1.1, B1.1, A2.1, B2.1, late copied A1.1",
    },
    "frames are held up on the way to the server": {
        Violation.WRONG: "A1.1, B1.1 (held up), resent A1.1, resent A2.1, [B1.1 at the server], resent A2.1",
    },
    "acknowledgements are lost, with tensors of a window of two": {
        Violation.WRONG: "A1.1, A1.2, B1.1, B1.2 (lost to A), B2.2, resent A1.2",
        Violation.DIFFERENT: "A1.1, A1.2, B1.1, B1.2 (lost to A), B2.2, resent A1.2",
        Violation.STALLED: "A1.1, A1.2, B1.1 (lost to A), B1.2 (lost to A), resent B2.1, resent A1.2",
    },
    "acknowledgements are lost, with tensors of two windows of one": {
        Violation.STALLED: "A1.1, B1.1, A1.2, B1.2 (lost to A), resent B2.1",
    },
}


ATP_SEARCHES: dict[str, tuple[AtpDescription, set[PacketFault]]] = {
    "nothing but losses of packets": (AtpDescription(), set()),
    "acknowledgements are lost": (AtpDescription(), {PacketFault.LOST}),
    "copies come, also late": (AtpDescription(), {PacketFault.COPIED}),
    "frames are held up on the way to the server": (AtpDescription(), {PacketFault.DELAYED}),
    "acknowledgements are lost, with tensors of a window of two": (
        AtpDescription(window=2, packets=2), {PacketFault.LOST},
    ),
    "acknowledgements are lost, with tensors of two windows of one": (
        AtpDescription(packets=2), {PacketFault.LOST},
    ),
}  # fmt: skip
SOAKED = {
    "acknowledgements are lost, with tensors of a window of two",
    "frames are held up on the way to the server",
}
"""Searches of many states."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.soak] * (each in SOAKED)) for each in ATP_SCHEDULES]
)
def test_the_shortest_wrong_schedules_of_atp_are_found(name: str) -> None:
    protocol, faults = ATP_SEARCHES[name]
    found = shortest(protocol, frozenset(faults), 6)
    assert {kind: schedules[0] for kind, schedules in found.items()} == ATP_SCHEDULES[name]


@pytest.mark.parametrize("fault", [PacketFault.LOST, PacketFault.COPIED])
def test_the_check_mends_all_of_atp_but_a_cell_that_is_not_freed(fault: PacketFault) -> None:
    assert set(shortest(AtpDescription(check=True), frozenset({fault}), 6)) <= {Violation.LEAKED}


# -- planted bugs in the checked protocol, which the judge must find


class AddsRepetitions(SwitchMLSwitchModel):
    def take(self, worker: int, packet: SwitchMLPacket, now_us: int = 0) -> SwitchAnswer | None:
        entry = self.sets[packet.set][packet.slot]
        entry.bitmap &= ~(1 << worker)
        return super().take(worker, packet, now_us)


class AnswersOneEarly(SwitchMLSwitchModel):
    def take(self, worker: int, packet: SwitchMLPacket, now_us: int = 0) -> SwitchAnswer | None:
        answer = super().take(worker, packet, now_us)
        entry = self.sets[packet.set][packet.slot]
        return answer or SwitchAnswer(True, packet._replace(values=entry.values))


class NeverAnswersAgain(SwitchMLSwitchModel):
    def take(self, worker: int, packet: SwitchMLPacket, now_us: int = 0) -> SwitchAnswer | None:
        answer = super().take(worker, packet, now_us)
        return answer if answer and answer.is_multicast else None


@dataclass
class BrokenDescription:
    switch: type[SwitchMLSwitchModel]
    violation: Violation
    steps: int


@pytest.mark.parametrize(
    "broken",
    [
        BrokenDescription(AddsRepetitions, Violation.WRONG, 2),
        BrokenDescription(AnswersOneEarly, Violation.WRONG, 1),
        BrokenDescription(NeverAnswersAgain, Violation.STALLED, 2),
    ],
    ids=lambda broken: broken.switch.__name__,
)
def test_planted_bugs_are_found(broken: BrokenDescription) -> None:
    class Planted(SwitchMLDescription):
        def system(self) -> JudgedSystem:
            system = super().system()
            planted = broken.switch(self.workers, self.window, check=self.check)
            planted.sets = system.switch.sets
            system.switch = planted
            return system

    faults = frozenset({PacketFault.LOST})
    found = shortest(Planted(check=True), faults, 4)
    assert len(found[broken.violation][0].split(", ")) == broken.steps
    assert shortest(CHECKED, faults, 4) == {}


def test_random_schedules_meet_the_violations_that_the_search_finds() -> None:
    ends = [Judge(PUBLISHED, SPRAYING).play(seed, 30) for seed in range(40)]
    judge = Judge(PUBLISHED, SPRAYING)
    assert {violation for end in ends for violation in judge.violations(end.system)} >= {Violation.WRONG}
    checked = Judge(CHECKED, SPRAYING | {PacketFault.LOST})
    assert not any(list(checked.violations(checked.play(seed, 30).system)) for seed in range(20))


def test_a_replay_has_the_state_after_each_step() -> None:
    judge = Judge(PUBLISHED, SPRAYING)
    [_, wrong, *_] = judge.search(5)[Violation.WRONG]
    states = judge.replay(wrong.steps)
    assert [state.steps for state in states] == [wrong.steps[:n] for n in range(6)] and states[-1] == wrong
    assert list(judge.violations(wrong.system)) == [Violation.WRONG]
    assert not any(list(judge.violations(state.system)) for state in states[:-1])
