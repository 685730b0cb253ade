"""The hot set in a network of switches: a window for each home, and bugs planted in the rules of homes."""

from __future__ import annotations

from functools import partial

import pytest

from hotline_allreduce.judge.description import SERVER, Event, JudgedSystem, SentFrame, Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.judge.hotset import HotHome, HotSetDescription
from hotline_allreduce.judge.hotset_rules import LIVES, REPLAY, HotCaller, HotOp, HotRpc, HotWorker

COPIED, LOST, DELAYED, KILLED, RESTARTED = PacketFault
NETWORK = HotSetDescription(workers=1, window=1, pushes=2, homes=2)
NETWORK_PAIR = HotSetDescription(window=1, pushes=1, homes=2)
NETWORK_MOVING = HotSetDescription(workers=1, window=1, pushes=1, moves=1, homes=2)
NETWORK_FOLLOWED = HotSetDescription(workers=1, window=1, pushes=2, homes=2, has_successors=True)
ONE_WINDOW = HotSetDescription(workers=1, pushes=2, homes=2, has_window_by_home=False)
GAPS = HotSetDescription(workers=1, pushes=1, homes=2, has_window_by_home=False, accepts_gaps=True)


@pytest.mark.parametrize(
    ("protocol", "faults", "max_steps", "states"),
    [
        (NETWORK, {RESTARTED, LOST}, 6, 221),
        (NETWORK_PAIR, {COPIED, LOST, RESTARTED}, 6, 529),
        (NETWORK_MOVING, {COPIED, LOST}, 6, 733),
        (NETWORK_FOLLOWED, set(PacketFault), 6, 841),
        pytest.param(NETWORK, set(PacketFault), 10, 17_082, marks=pytest.mark.soak),
        pytest.param(NETWORK_PAIR, {RESTARTED, LOST}, 10, 5_137, marks=pytest.mark.soak),
        pytest.param(NETWORK_MOVING, set(PacketFault), 6, 6_580, marks=pytest.mark.soak),
        pytest.param(NETWORK_FOLLOWED, set(PacketFault), 8, 4_734, marks=pytest.mark.soak),
    ],
)
def test_no_schedule_in_a_network_adds_wrongly_or_stalls(
    protocol: HotSetDescription, faults: set[PacketFault], max_steps: int, states: int
) -> None:
    judge = Judge(protocol, frozenset(faults))
    assert judge.search(max_steps) == {} and judge.states == states


@pytest.mark.parametrize(
    ("protocol", "faults", "states"),
    [(NETWORK, {COPIED, LOST, DELAYED}, 25), (NETWORK_PAIR, {COPIED, LOST, DELAYED}, 81)],
)
def test_the_search_of_a_network_without_moves_is_exhaustive(
    protocol: HotSetDescription, faults: set[PacketFault], states: int
) -> None:
    judge = Judge(protocol, frozenset(faults))
    assert judge.search(20) == {} and judge.is_exhausted and judge.states == states


def test_a_window_over_two_homes_stalls_as_cells_accept_no_gaps() -> None:
    """The slot whose answer comes first is used next, for a home that has not seen its first turn."""
    found = Judge(ONE_WINDOW).search(4)
    assert set(found) == {Violation.STALLED}
    assert [state.steps for state in found[Violation.STALLED]] == [("A0 (slot 1, home 1)",)]


def test_a_window_over_two_homes_with_gaps_adds_a_push_twice_after_one_home_has_restarted() -> None:
    """The server of the home that has not restarted does not know what its switch has added."""
    [state, *_] = Judge(GAPS, frozenset({LOST, RESTARTED})).search(6)[Violation.WRONG]
    assert state.steps == (
        "A0 (slot 0, home 0) (lost to A)",
        "home 1 restarts",
        "the server takes back its values (home 1)",
        "A recovers (home 1)",
        "question about A0 (slot 0, home 0)",
        "A0 (slot 0, home 0)",
    )


def test_a_restart_of_one_home_leaves_the_window_of_the_other_home_unchanged() -> None:
    steps = ["home 1 restarts", "the server takes back its values (home 1)", "A recovers (home 1)"]
    [*_, state] = Judge(NETWORK, frozenset({RESTARTED})).replay(steps)
    [intact, renewed] = state.system.hosts[0]
    assert (intact.epoch, renewed.epoch) == (1, 1 + LIVES)
    assert [len(window.outstanding) for window in (intact, renewed)] == [1, 1]
    assert not intact.earlier and [rpc.op for rpc in renewed.outstanding.values()] == [HotOp.STATUS]


# -- bugs planted in the rules of a network


class TransitKeepsCells(HotSetDescription):
    """The leaf of a worker counts the turns of all RPCs that pass, whichever home's window has them."""

    def passes_transit(self, system: JudgedSystem, packet: HotRpc) -> bool:
        leaf = packet.caller % self.homes
        is_transit = packet.caller < self.workers and leaf != self.home_of(packet)
        return not is_transit or system.switch[leaf].take(packet) is not None


class RpcsGoPastTheHome(HotSetDescription):
    """Takes another path for one push, so that the home misses a turn of the window."""

    def at_switch(self, system: JudgedSystem, packet: HotRpc) -> list[SentFrame]:
        is_past = packet.number == 0 and packet.op is HotOp.PUSH and packet.caller < self.workers
        return [SentFrame(SERVER, packet)] if is_past else super().at_switch(system, packet)


class RestartRenewsAllWindows(HotSetDescription):
    def _recover(self, system: JudgedSystem, home: HotHome, window: HotWorker) -> None:
        for other in self.all_homes(system):
            super()._recover(system, home, other.windows[window.caller])


class RestartedHomeKeepsItsEpoch(HotSetDescription):
    def restart_home(self, system: JudgedSystem, home: int) -> None:
        epoch = system.switch[home].epoch
        super().restart_home(system, home)
        system.switch[home].epoch = epoch


class AllHomesAreReplayed(HotSetDescription):
    """Pushes again also what the switches have acknowledged that have not restarted."""

    def _recover(self, system: JudgedSystem, home: HotHome, window: HotWorker) -> None:
        for other in self.all_homes(system):
            caller = other.windows[window.caller]
            if other.number != home.number and caller.log:
                log = tuple(caller.log.items())
                caller.send([HotRpc(caller.caller, caller.epoch, 0, 0, HotOp.PUSH, REPLAY, log)])
        super()._recover(system, home, window)


class AllServersTakeBack(HotSetDescription):
    """Has the servers of all homes take back their values, although one switch has lost its own."""

    def events(self, system: JudgedSystem) -> dict[str, Event]:
        events = super().events(system)
        return {
            name: partial(self._take_back, system, event) if "takes back" in name else event
            for name, event in events.items()
        }

    def _take_back(self, system: JudgedSystem, event: Event) -> None:
        late = [home.is_late(home.mover) for home in self.all_homes(system)]
        event()
        for home, is_late in zip(self.all_homes(system), late, strict=True):
            if not is_late:
                home.server.restore()


class QuestionsGoToAnotherHome(HotSetDescription):
    def home_of(self, rpc: HotRpc) -> int:
        home = super().home_of(rpc)
        return 1 - home if rpc.op is HotOp.STATUS else home


class SuccessorIsAdmittedAtOneHome(HotSetDescription):
    def _take_part(self, home: HotHome, window: HotWorker) -> None:
        if home.number == 0:
            super()._take_part(home, window)
        else:
            window.take_part(window.epoch + 1)


class SuccessorEndsRpcsOfOneHome(HotSetDescription):
    """Begins the window of another home anew, although RPCs of the killed worker are unanswered there."""

    def _succeed(self, system: JudgedSystem, worker: int) -> None:
        super()._succeed(system, worker)
        [_, window] = system.hosts[worker]
        HotCaller.send(window, [])
        unanswered = list(window.outstanding.values())
        window.outstanding = {}
        window.queue = [*unanswered, *window.queue]


def like(planted: type[HotSetDescription], protocol: HotSetDescription) -> HotSetDescription:
    """Return a protocol of another class, with the same settings."""
    return planted(
        protocol.workers, protocol.window, len(protocol.chunks), protocol.moves, protocol.has_successors,
        protocol.homes,
    )  # fmt: skip


PLANTED: list[tuple[type[HotSetDescription], HotSetDescription, set[PacketFault], Violation, int]] = [
    (TransitKeepsCells, NETWORK, set(), Violation.STALLED, 1),
    (RpcsGoPastTheHome, NETWORK, set(), Violation.STALLED, 1),
    (RestartRenewsAllWindows, NETWORK, {RESTARTED}, Violation.STALLED, 2),
    (RestartedHomeKeepsItsEpoch, NETWORK, {RESTARTED}, Violation.STALLED, 1),
    (AllHomesAreReplayed, NETWORK, {RESTARTED}, Violation.WRONG, 6),
    (AllServersTakeBack, NETWORK_MOVING, {RESTARTED}, Violation.WRONG, 7),
    (QuestionsGoToAnotherHome, NETWORK, {RESTARTED}, Violation.STALLED, 1),
    (SuccessorIsAdmittedAtOneHome, NETWORK_FOLLOWED, {KILLED}, Violation.STALLED, 2),
    (SuccessorEndsRpcsOfOneHome, NETWORK_FOLLOWED, {KILLED, LOST}, Violation.WRONG, 5),
]


@pytest.mark.parametrize(
    ("planted", "protocol", "faults", "violation", "steps"),
    PLANTED,
    ids=[planted.__name__ for planted, *_ in PLANTED],
)
def test_bugs_planted_in_the_rules_of_a_network_are_found(
    planted: type[HotSetDescription], protocol: HotSetDescription, faults: set[PacketFault],
    violation: Violation, steps: int,
) -> None:  # fmt: skip
    found = Judge(like(planted, protocol), frozenset(faults)).search(steps)
    assert len(found[violation][0].steps) == steps
