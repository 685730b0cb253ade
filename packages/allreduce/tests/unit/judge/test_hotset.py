"""The hot set's exactly once, moves of keys and recovery, searched within a bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hotline_allreduce.judge.description import JudgedSystem, Violation
from hotline_allreduce.judge.engine import Judge, PacketFault
from hotline_allreduce.judge.hotset import HotSetDescription
from hotline_allreduce.judge.hotset_rules import (
    DRAINING,
    KEYS,
    RESERVED,
    HotRpc,
    HotServerModel,
    HotSwitchModel,
    HotWorker,
)

COPIED, LOST, DELAYED, KILLED, RESTARTED = PacketFault
STATIC, MOVING = HotSetDescription(), HotSetDescription(window=1, pushes=1, moves=2)
ALONE = HotSetDescription(workers=1, window=1, pushes=1, moves=1)
FOLLOWED = HotSetDescription(workers=1, window=1, pushes=2, moves=1, has_successors=True)
PAIR_FOLLOWED = HotSetDescription(window=2, pushes=2, has_successors=True)


@pytest.mark.parametrize(
    ("protocol", "faults", "max_steps", "states"),
    [
        pytest.param(STATIC, {COPIED, LOST, DELAYED, KILLED}, 4, 3_551, marks=pytest.mark.soak),
        pytest.param(STATIC, set(PacketFault), 5, 19_147, marks=pytest.mark.soak),
        (MOVING, {COPIED}, 8, 577),
        pytest.param(MOVING, {COPIED, LOST}, 9, 3_581, marks=pytest.mark.soak),
        pytest.param(MOVING, {DELAYED}, 9, 17_963, marks=pytest.mark.soak),
        pytest.param(MOVING, {RESTARTED, LOST}, 8, 4_652, marks=pytest.mark.soak),
        pytest.param(MOVING, set(PacketFault), 6, 12_984, marks=pytest.mark.soak),
        (ALONE, set(PacketFault), 5, 746),
        (FOLLOWED, {KILLED, LOST, COPIED}, 8, 1_221),
        (PAIR_FOLLOWED, {KILLED, LOST}, 8, 1_330),
        pytest.param(FOLLOWED, set(PacketFault), 6, 4_072, marks=pytest.mark.soak),
        pytest.param(ALONE, {COPIED, LOST, RESTARTED}, 12, 3_641, marks=pytest.mark.soak),
    ],
)
def test_no_schedule_adds_wrongly_or_stalls(
    protocol: HotSetDescription, faults: set[PacketFault], max_steps: int, states: int
) -> None:
    judge = Judge(protocol, frozenset(faults))
    assert judge.search(max_steps) == {} and judge.states == states


@pytest.mark.parametrize(("faults", "states"), [({COPIED}, 121), ({COPIED, LOST}, 576)])
def test_the_search_without_moves_is_exhaustive(faults: set[PacketFault], states: int) -> None:
    judge = Judge(STATIC, frozenset(faults))
    assert judge.search(20) == {} and judge.is_exhausted and judge.states == states


class SuccessorPushesAnew(HotWorker):
    """Takes the killed worker's requests for such that were never sent."""

    def succeed(self) -> None:
        super().succeed()
        self.queue = [*self.outstanding.values(), *self.queue]
        self.outstanding = {}


class SuccessorForgetsTheLog(HotWorker):
    def succeed(self) -> None:
        super().succeed()
        self.log = {}


class SuccessorKeepsTheEpoch(HotWorker):
    """Begins the turns of its slots anew in the killed worker's epoch."""

    def take_part(self, epoch: int) -> None:
        super().take_part(epoch - 1)


class EveryPushIsNew(HotSwitchModel):
    def take(self, rpc: HotRpc) -> tuple[int, ...] | None:
        self.last[rpc.caller, rpc.slot] = rpc.turn - 1, ()
        return super().take(rpc)


class DropsRepetitions(HotSwitchModel):
    def take(self, rpc: HotRpc) -> tuple[int, ...] | None:
        turn, _ = self.last.get((rpc.caller, rpc.slot), (0, ()))
        return super().take(rpc) if rpc.turn > turn else None


class ServesRepetitionsByEntries(HotSwitchModel):
    """Marks the keys of a copy as served that are hot now, not those that the first copy was served."""

    def take(self, rpc: HotRpc) -> tuple[int, ...] | None:
        served = super().take(rpc)
        return None if served is None else self._hits(rpc)


class DrainingHits(HotSwitchModel):
    def _hits(self, rpc: HotRpc) -> tuple[int, ...]:
        draining = [key for key in rpc.keys if self.entries.get(key) == DRAINING]
        return (*super()._hits(rpc), *draining) if rpc.caller != self.mover else super()._hits(rpc)


class ReservedMissesForTheServer(HotSwitchModel):
    def _hits(self, rpc: HotRpc) -> tuple[int, ...]:
        return tuple(key for key in super()._hits(rpc) if self.entries.get(key) != RESERVED)


class ServerAddsRepetitions(HotServerModel):
    def take(self, rpc: HotRpc) -> tuple[int, ...] | None:
        self.last.pop((rpc.caller, rpc.epoch, rpc.slot), None)
        return super().take(rpc)


class ServerForgetsWhatItGave(HotServerModel):
    def restore(self) -> None:
        self.at_switch = dict.fromkeys(self.at_switch, 0)
        super().restore()


class ServerCountsWhatCameBackTwice(HotServerModel):
    def reclaim(self, key: int, value: int) -> None:
        super().reclaim(key, value)
        self.at_switch[key] += value


class ServerLeavesAPushOpen(HotServerModel):
    def _close(self, rpc: HotRpc) -> tuple[int, ...]:
        before = dict(self.last)
        added = super()._close(rpc)
        self.last = before
        return added


class DoesNotAsk(HotWorker):
    def renew(self, epoch: int) -> list[HotRpc]:
        unanswered = super().renew(epoch)
        self.queue += unanswered
        return []


class DoesNotReplay(HotWorker):
    def recover(self, epoch: int, lost: tuple[int, ...] = KEYS) -> None:
        self.log = {}
        super().recover(epoch, lost)


def plant(protocol: HotSetDescription, part: str, broken: type[Any]) -> HotSetDescription:
    """Return a protocol whose switch, server or workers are of another class, in the same state."""

    class Planted(HotSetDescription):
        def system(self) -> JudgedSystem:
            system = super().system()
            windows = [window for windows in system.hosts[: self.workers] for window in windows]
            for owner in windows if part == "worker" else getattr(system, part):
                owner.__class__ = broken
            return system

        def restart_home(self, system: JudgedSystem, home: int) -> None:
            super().restart_home(system, home)
            if part == "switch":
                system.switch[home].__class__ = broken

    return Planted(
        protocol.workers, protocol.window, len(protocol.chunks), protocol.moves, protocol.has_successors
    )


PLANTED: list[tuple[str, type[Any], HotSetDescription, set[PacketFault], Violation, int]] = [
    ("switch", EveryPushIsNew, STATIC, {COPIED}, Violation.WRONG, 2),
    ("switch", DropsRepetitions, STATIC, {LOST}, Violation.STALLED, 1),
    ("server", ServerAddsRepetitions, STATIC, {COPIED}, Violation.WRONG, 2),
    ("switch", ServesRepetitionsByEntries, ALONE, {DELAYED}, Violation.WRONG, 6),
    ("switch", DrainingHits, ALONE, set(), Violation.WRONG, 6),
    ("switch", ReservedMissesForTheServer, ALONE, set(), Violation.WRONG, 4),
    ("server", ServerForgetsWhatItGave, ALONE, {RESTARTED}, Violation.WRONG, 7),
    ("server", ServerCountsWhatCameBackTwice, ALONE, {RESTARTED}, Violation.WRONG, 9),
    ("server", ServerLeavesAPushOpen, ALONE, {RESTARTED, DELAYED}, Violation.WRONG, 7),
    ("worker", DoesNotAsk, ALONE, {RESTARTED, LOST}, Violation.WRONG, 5),
    ("worker", DoesNotReplay, ALONE, {RESTARTED}, Violation.WRONG, 4),
    ("worker", SuccessorPushesAnew, FOLLOWED, {KILLED, LOST}, Violation.WRONG, 5),
    ("worker", SuccessorForgetsTheLog, FOLLOWED, {KILLED, RESTARTED}, Violation.WRONG, 6),
    ("worker", SuccessorKeepsTheEpoch, FOLLOWED, {KILLED}, Violation.STALLED, 2),
]


@pytest.mark.parametrize(
    ("part", "broken", "protocol", "faults", "violation", "steps"),
    PLANTED,
    ids=[broken.__name__ for _, broken, *_ in PLANTED],
)
def test_planted_bugs_are_found(
    part: str, broken: type[Any], protocol: HotSetDescription, faults: Iterable[PacketFault],
    violation: Violation, steps: int,
) -> None:  # fmt: skip
    found = Judge(plant(protocol, part, broken), frozenset(faults)).search(steps)
    assert len(found[violation][0].steps) == steps
