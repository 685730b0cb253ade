"""The hot set at both levels: a server with two homes, moves between them, and bugs planted in the rules."""

from __future__ import annotations

import pytest

from hotline_allreduce.judge.description import JudgedSystem, Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.judge.hotset import HotHome, Windows
from hotline_allreduce.judge.hotset_rules import LIVES, HotOp, HotRpc, HotServerModel, HotWorker
from hotline_allreduce.judge.levels import MOVE_TO_THE_SPINE, LevelsDescription, LevelServerModel

COPIED, LOST, DELAYED, KILLED, RESTARTED = PacketFault
FIRST_PUSH = "A0 (slot 0, home 0)"
STATIC = LevelsDescription(pushes=2)
ALONE = LevelsDescription(workers=1, pushes=2)
MOVING = LevelsDescription(workers=1, moves=1, places=(0,))
SERVED = LevelsDescription(workers=1, moves=1, places=(None,))
MOVED = LevelsDescription(
    workers=1, pushes=2, moves=2, places=(0,), first_steps=(FIRST_PUSH, *MOVE_TO_THE_SPINE)
)
RESTARTED_BEFORE = LevelsDescription(
    workers=1,
    pushes=2,
    moves=2,
    places=(0,),
    first_steps=(
        FIRST_PUSH,
        *MOVE_TO_THE_SPINE,
        "home 1 restarts",
        "the server takes back its values (home 1)",
        "A recovers (home 1)",
    ),
)


@pytest.mark.parametrize(
    ("protocol", "faults", "max_steps", "states"),
    [
        (ALONE, {RESTARTED, LOST}, 7, 566),
        (MOVING, {COPIED, LOST}, 12, 654),
        (MOVING, {RESTARTED}, 12, 3_424),
        (SERVED, {COPIED, LOST}, 12, 510),
        (MOVED, {RESTARTED, LOST}, 7, 1_117),
        (MOVED, set(PacketFault), 5, 1_151),
        (RESTARTED_BEFORE, {RESTARTED, LOST}, 6, 689),
        pytest.param(MOVING, {RESTARTED, LOST}, 14, 13_996, marks=pytest.mark.soak),
        pytest.param(SERVED, set(PacketFault), 7, 5_920, marks=pytest.mark.soak),
        pytest.param(MOVED, {RESTARTED, LOST}, 12, 9_980, marks=pytest.mark.soak),
        pytest.param(RESTARTED_BEFORE, {RESTARTED, LOST}, 10, 5_823, marks=pytest.mark.soak),
        pytest.param(RESTARTED_BEFORE, set(PacketFault), 7, 6_398, marks=pytest.mark.soak),
    ],
)
def test_no_schedule_at_both_levels_adds_wrongly_or_stalls(
    protocol: LevelsDescription, faults: set[PacketFault], max_steps: int, states: int
) -> None:
    judge = Judge(protocol, frozenset(faults))
    assert judge.search(max_steps) == {} and judge.states == states


@pytest.mark.parametrize(("faults", "states"), [({COPIED}, 64), ({COPIED, LOST}, 441)])
def test_the_search_of_both_levels_without_moves_is_exhaustive(faults: set[PacketFault], states: int) -> None:
    judge = Judge(STATIC, frozenset(faults))
    assert judge.search(20) == {} and judge.is_exhausted and judge.states == states


def test_a_refused_push_reaches_the_home_with_the_key_of_the_push() -> None:
    judge = Judge(LevelsDescription(workers=1))
    [_, refused, state] = judge.replay([FIRST_PUSH, "A0 (slot 1, home 1)"])
    [leaf, spine] = refused.system.hosts[0]
    assert leaf.acknowledged == {(0, 0)} and [rpc.keys for rpc in spine.outstanding.values()] == [(1,)]
    assert state.system.hosts[0][1].acknowledged == {(0, 1)}
    assert [home.values for home in state.system.switch] == [{0: 1, 1: 0}, {0: 0, 1: 1}]


def test_a_home_gets_no_key_of_the_other_home() -> None:
    [*_, state] = Judge(MOVING).replay(["key 0 is reserved (home 1)", "the server gives key 0 (home 1)"])
    assert state.system.switch[1].entries == {} and state.system.server[0].homes_of_keys == {0: 0}
    assert "the server's push of key 0 (home 1)" not in {
        each.steps[-1] for each in Judge(MOVING).successors(state)
    }


def test_after_a_move_each_home_has_its_own_part_in_the_log_and_of_the_value() -> None:
    system = MOVED.system()
    [leaf, spine] = system.hosts[0]
    assert (leaf.log, spine.log) == ({0: 1}, {})
    assert [server.at_switch[0] for server in system.server] == [-1, 1]
    assert system.server[0].homes_of_keys == {0: 1} and [home.values[0] for home in system.switch] == [0, 1]


@pytest.mark.parametrize(("home", "value", "is_owned"), [(0, -1, False), (1, 1, True)])
def test_a_restart_of_one_home_gives_back_the_rows_of_one_home_alone(
    home: int, value: int, is_owned: bool
) -> None:
    """After a move, the former home's restart leaves the key, but undoes its pushes, which are replayed."""
    steps = [f"home {home} restarts", f"the server takes back its values (home {home})"]
    [*_, state] = Judge(MOVED, frozenset({RESTARTED})).replay(steps)
    [server, _] = state.system.server
    assert server.values[0] == value and (0 in server.owned) is is_owned
    assert [windows.epoch for windows in state.system.hosts[0]] == [1, 1]
    [*_, state] = Judge(MOVED, frozenset({RESTARTED})).replay([*steps, f"A recovers (home {home})"])
    epochs = [window.epoch for window in state.system.hosts[0]]
    assert epochs[home] == 1 + LIVES and epochs[1 - home] == 1


# -- bugs planted in the rules of a server with two homes


class LostHomeGivesBackBoth(LevelServerModel):
    """Owns again the keys of both homes, although one has lost its own."""

    def restore(self) -> None:
        super().restore()
        self.owned.update(self.homes_of_keys)
        self.homes_of_keys.clear()


class SeedIsNotRefused(LevelServerModel):
    """Seeds a home also with a key that the other home has."""

    def is_at_another_home(self, key: int) -> bool:
        return False

    def release(self, key: int) -> int:
        self.owned.add(key)
        return super().release(key)


class MovedKeyStaysWithItsFirstHome(LevelServerModel):
    """Does not note which home has a key after a move."""

    def is_at_another_home(self, key: int) -> bool:
        return key not in self.owned

    def release(self, key: int) -> int:
        first_home = self.homes_of_keys.get(key, self.home)
        value = super().release(key)
        self.homes_of_keys[key] = first_home
        return value

    def reclaim(self, key: int, value: int) -> None:
        first_home = self.homes_of_keys.get(key, self.home)
        super().reclaim(key, value)
        self.homes_of_keys[key] = first_home


class OneSumOfBothHomes(LevelsDescription):
    """Has one sum of what both homes were given."""

    def servers(self) -> list[HotServerModel]:
        servers = super().servers()
        for server in servers:
            server.at_switch = servers[0].at_switch
        return servers


class OneLogForBothLevels(LevelsDescription):
    def windows_of(self, worker: int) -> Windows:
        windows = super().windows_of(worker)
        for window in windows:
            window.log = windows[0].log
        return windows


class LogsOfBothLevelsAreForgotten(LevelsDescription):
    """Forgets at a restart of one home what the other home had acknowledged."""

    def _recover(self, system: JudgedSystem, home: HotHome, window: HotWorker) -> None:
        super()._recover(system, home, window)
        for other in self.all_homes(system):
            other.windows[window.caller].log = {}


class KeysThatHaveMovedAreNotReplayed(LevelsDescription):
    """Pushes again only keys that the lost home had in the end, although others were there before."""

    def _recover(self, system: JudgedSystem, home: HotHome, window: HotWorker) -> None:
        at_others = [key for key in home.keys if home.server.is_at_another_home(key)]
        window.log = {key: delta for key, delta in window.log.items() if key not in at_others}
        super()._recover(system, home, window)


class RestartRenewsBothWindows(LevelsDescription):
    def _recover(self, system: JudgedSystem, home: HotHome, window: HotWorker) -> None:
        for other in self.all_homes(system):
            other.windows[window.caller].recover(home.switch.epoch, home.keys)


class RefusedPushGoesToTheSameHome(LevelsDescription):
    def at_host(self, system: JudgedSystem, host: int, packet: HotRpc) -> None:
        if host >= self.workers:
            super().at_host(system, host, packet)
        else:
            self.home(system, packet.home).windows[host].answer(packet)


class RefusedPushKeepsItsNumber(LevelsDescription):
    """Sends a refused push to the other home with the slot and the turn of its own home's window."""

    def at_host(self, system: JudgedSystem, host: int, packet: HotRpc) -> None:
        if host >= self.workers or packet.op is HotOp.STATUS:
            super().at_host(system, host, packet)
            return
        window = self.home(system, packet.home).windows[host]
        answered = window.outstanding.get(packet.slot)
        for rpc in window.note(packet):
            assert answered is not None
            window.outstanding[packet.slot] = answered._replace(deltas=rpc.deltas, home=1 - packet.home)
        window.send([])


class SlotsAreNumberedAlike(LevelsDescription):
    """Numbers the slots of both windows alike, so that the server takes one for the other."""

    def windows_of(self, worker: int) -> Windows:
        windows = super().windows_of(worker)
        for window in windows:
            window.__class__ = FirstSlots
        return windows


class FirstSlots(HotWorker):
    @property
    def slots(self) -> range:
        return range(self.window)


class OneWindowOverBothHomes(LevelsDescription):
    def windows_of(self, worker: int) -> Windows:
        [window, _] = super().windows_of(worker)
        return [window, window]

    def home_of(self, rpc: HotRpc) -> int:
        if rpc.caller >= self.workers:
            return super().home_of(rpc)
        return self.places[rpc.keys[0]] or 0


def with_server(model: type[LevelServerModel]) -> type[LevelsDescription]:
    """Return the protocol with a server of another class."""

    class Planted(LevelsDescription):
        def servers(self) -> list[HotServerModel]:
            servers = super().servers()
            for server in servers:
                server.__class__ = model
            return servers

    Planted.__name__ = model.__name__
    return Planted


def like(planted: type[LevelsDescription], protocol: LevelsDescription) -> LevelsDescription:
    """Return a protocol of another class, with the same settings."""
    return planted(
        protocol.workers, protocol.window, len(protocol.chunks), protocol.moves,
        tuple(protocol.places.values()), protocol.first_steps,
    )  # fmt: skip


PLANTED: list[tuple[type[LevelsDescription], LevelsDescription, set[PacketFault], Violation, int]] = [
    (with_server(LostHomeGivesBackBoth), ALONE, {RESTARTED}, Violation.WRONG, 2),
    (with_server(SeedIsNotRefused), MOVING, set(), Violation.WRONG, 4),
    (with_server(MovedKeyStaysWithItsFirstHome), MOVED, {RESTARTED}, Violation.WRONG, 2),
    (OneSumOfBothHomes, MOVED, {RESTARTED}, Violation.WRONG, 3),
    (OneLogForBothLevels, MOVING, {RESTARTED}, Violation.WRONG, 6),
    (LogsOfBothLevelsAreForgotten, RESTARTED_BEFORE, {RESTARTED}, Violation.WRONG, 3),
    (KeysThatHaveMovedAreNotReplayed, MOVED, {RESTARTED}, Violation.WRONG, 3),
    (RestartRenewsBothWindows, ALONE, {RESTARTED}, Violation.STALLED, 1),
    (RefusedPushGoesToTheSameHome, ALONE, set(), Violation.STALLED, 1),
    (RefusedPushKeepsItsNumber, ALONE, set(), Violation.STALLED, 1),
    (SlotsAreNumberedAlike, ALONE, {RESTARTED}, Violation.WRONG, 5),
    (OneWindowOverBothHomes, ALONE, set(), Violation.STALLED, 1),
]


@pytest.mark.parametrize(
    ("planted", "protocol", "faults", "violation", "steps"),
    PLANTED,
    ids=[planted.__name__ for planted, *_ in PLANTED],
)
def test_bugs_planted_in_the_rules_of_both_levels_are_found(
    planted: type[LevelsDescription], protocol: LevelsDescription, faults: set[PacketFault],
    violation: Violation, steps: int,
) -> None:  # fmt: skip
    found = Judge(like(planted, protocol), frozenset(faults)).search(steps)
    assert len(found[violation][0].steps) == steps
