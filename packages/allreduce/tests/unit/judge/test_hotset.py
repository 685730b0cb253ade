"""The hot set's exactly once, searched exhaustively within a bound, and its model against the P4 program."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from foundation.protocol import codec, frames
from foundation.protocol.header import WINDOW_BITS, Op
from hotline_allreduce.judge.description import SERVER, SWITCH
from hotline_allreduce.judge.engine import SPRAYING, Judge, PacketFault, Violation
from hotline_allreduce.judge.hotset import (
    COLD_KEY,
    HOT_KEY,
    HotPush,
    HotServerModel,
    HotSetDescription,
    HotSwitchModel,
)
from softswitch.pipeline import Change
from switch_harness.effort import steps
from tests.harness.testnet import KEY_OF, SERVER_PORT, held, hot_entry, network, new_switch, request, write

LATE, LOST, DELAYED, KILLED = (
    PacketFault.LATE, PacketFault.LOST, PacketFault.DELAYED, PacketFault.KILLED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("faults", "max_steps", "states", "is_exhausted"),
    [
        (SPRAYING, 8, 121, True),
        (frozenset({LATE, LOST}), 8, 576, True),
        pytest.param(frozenset({LATE, LOST, DELAYED, KILLED}), 4, 2_827, False),
        pytest.param(frozenset({LATE, LOST, DELAYED, KILLED}), 5, 9_943, False, marks=pytest.mark.soak),
    ],
    ids=["spraying", "lost", "all in 4 steps", "all in 5 steps"],
)
def test_no_schedule_of_two_workers_two_keys_and_two_slots_is_wrong(
    faults: frozenset[PacketFault], max_steps: int, states: int, is_exhausted: bool
) -> None:
    judge = Judge(HotSetDescription(), faults)
    assert judge.search(max_steps) == {} and judge.states == states
    if is_exhausted:  # the last steps have led to no other state
        assert judge.search(max_steps - 2) == {} and judge.states == states


class EveryPushIsNew(HotSwitchModel):
    def take(self, push: HotPush, addend: int) -> tuple[int, ...] | None:
        self.last[push.worker, push.slot] = push.turn - 1, ()
        return super().take(push, addend)


class DropsRepetitions(HotSwitchModel):
    def take(self, push: HotPush, addend: int) -> tuple[int, ...] | None:
        turn, _ = self.last.get((push.worker, push.slot), (0, ()))
        return super().take(push, addend) if push.turn > turn else None


class ServerAddsRepetitions(HotServerModel):
    def take(self, push: HotPush, addend: int) -> bool:
        self.last_turns.pop((push.worker, push.slot), None)
        return super().take(push, addend)


@pytest.mark.parametrize(
    ("index", "broken", "violation", "schedule"),
    [
        (SWITCH, EveryPushIsNew({HOT_KEY}), Violation.WRONG, "A0 (slot 0), late A0 (slot 0)"),
        (SWITCH, DropsRepetitions({HOT_KEY}), Violation.STALLED, "A0 (slot 0) (lost to A)"),
        (SERVER, ServerAddsRepetitions(), Violation.WRONG, "A0 (slot 0), late A0 (slot 0)"),
    ],
    ids=["every push is new", "repetitions are dropped", "the server adds repetitions"],
)
def test_planted_bugs_are_found(index: int, broken: Any, violation: Violation, schedule: str) -> None:
    class Planted(HotSetDescription):
        def nodes(self) -> Sequence[Any]:
            nodes = list(super().nodes())
            nodes[index] = broken
            return nodes

    found = Judge(Planted(), frozenset({LATE, LOST})).search(3)
    assert ", ".join(map(str, found[violation][0])) == schedule


def test_the_switchs_model_is_the_program() -> None:
    """Random pushes of two workers, while the hot key becomes cold and hot again."""
    random, program, model = Random(1), new_switch(), HotSwitchModel(set())
    write(program, network())
    lanes, keys, register_slot = {HOT_KEY: 0, COLD_KEY: 1}, (KEY_OF[0], KEY_OF[1]), 5
    kinds = set()
    for _ in range(steps(2_000)):
        if random.random() < 0.1:
            change = Change.DELETE if HOT_KEY in model.hot else Change.INSERT
            write(program, [hot_entry(change, keys[HOT_KEY], "hot", register_slot, lanes[HOT_KEY])])
            model.hot ^= {HOT_KEY}
        worker, slot = random.randrange(2), random.randrange(2)
        turn = model.last.get((worker, slot), (0, ()))[0] + random.choice([-1, 0, 0, 1, 1, 2])
        push, addend = HotPush(worker, slot, max(turn, 0), 0), random.randrange(1, 1 << 20)
        served = model.take(push, addend)
        port, frame = request(
            Op.PUSH, {lanes[key]: (keys[key], addend) for key in lanes}, push.turn << WINDOW_BITS | slot,
            worker + 1,
        )  # fmt: skip
        outputs = program.process(port, frame, 0, 0)
        assert [int(output.port) for output in outputs] == ([] if served is None else [SERVER_PORT])
        if served is not None:
            header = codec.parse(frames.parse(bytes(outputs[0].frame)).payload).header
            assert header.served == sum(1 << lanes[key] for key in served)
        assert held(program, lanes[HOT_KEY], register_slot) == model.values[HOT_KEY] % 2**32
        kinds.add(served)
    assert kinds == {None, (), (HOT_KEY,)}
