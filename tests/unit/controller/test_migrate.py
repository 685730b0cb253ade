"""The planner of moves and its execution, against a plain model of switch and parameter servers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import HotSetError
from controller.hotset.migrate import WAVE, Move, execute, plan
from controller.tables import Change, HotParam, KeyState, Update
from foundation.protocol.control import MAX_KEYS, Command
from foundation.protocol.hashing import lane_of, ps_of
from switch_harness.wording import mentions

JOB = 7
OTHER_JOB = 8
N_PS = 2
SLOTS = 8
LANES_USED = (0, 1)
UNIVERSE = [key for key in range(400) if lane_of(key) in LANES_USED][:14]

# Updates that a move may cost at most, by start and goal; one of them ends it.
COST = {
    (None, KeyState.HOT): 2,
    (None, KeyState.PARKED): 1,
    (KeyState.HOT, None): 2,
    (KeyState.HOT, KeyState.PARKED): 2,
    (KeyState.RESERVED, None): 2,
    (KeyState.RESERVED, KeyState.HOT): 1,
    (KeyState.RESERVED, KeyState.PARKED): 2,
    (KeyState.DRAINING, None): 1,
    (KeyState.DRAINING, KeyState.HOT): 1,
    (KeyState.DRAINING, KeyState.PARKED): 1,
    (KeyState.PARKED, None): 1,
    (KeyState.PARKED, KeyState.HOT): 2,
}


class Interrupted(Exception):
    pass


class World:
    """A switch and its parameter servers; between steps every key is pushed to its owner."""

    def __init__(self, params: dict[tuple[int, int], HotParam], away: set[int]) -> None:
        self.params = params
        self.at_ps = {key: 100 + key for key in UNIVERSE}
        self.away = away
        self.registers: Counter[tuple[int, int]] = Counter()
        for key in away:
            self.registers[self._cell(key)] = self.at_ps[key]
            self.at_ps[key] = 0
        self.pushed = {key: 100 + key for key in UNIVERSE}
        self.writes = 0
        self.steps_left: int | None = None

    async def write(self, updates: Sequence[Update]) -> None:
        for update in updates:
            self._step()
            self.writes += 1
            self._apply(update)

    async def command(self, command: Command, ps: int, keys: Sequence[int]) -> None:
        assert len(keys) <= MAX_KEYS
        for key in keys:
            self._step()
            assert ps_of(key, N_PS) == ps
            assert self.params[JOB, key].state in (KeyState.RESERVED, KeyState.DRAINING)
            cell = self._cell(key)
            if command is Command.SEED and key not in self.away:
                self.away.add(key)
                self.registers[cell] += self.at_ps[key]
                self.at_ps[key] = 0
            elif command is Command.COLLECT and key in self.away:
                self.away.remove(key)
                self.at_ps[key] += self.registers[cell]
                self.registers[cell] = 0

    def check_sums(self) -> None:
        for key in UNIVERSE:
            held = self.registers[self._cell(key)] if key in self.away else 0
            assert self.at_ps[key] + held == self.pushed[key]

    def _apply(self, update: Update) -> None:
        param = update.row
        assert isinstance(param, HotParam)
        name = (param.job, param.key)
        assert param.job == JOB
        assert (name in self.params) == (update.change is not Change.INSERT)
        if update.change is Change.DELETE:
            assert param.key not in self.away, "the value would be lost"
            assert self.registers[self._cell(param.key)] == 0
            del self.params[name]
            return
        if update.change is Change.INSERT:
            assert (param.lane, param.slot) not in {(row.lane, row.slot) for row in self.params.values()}
            assert param.slot < SLOTS
            assert self.registers[param.lane, param.slot] == 0
        else:
            assert self.params[name] == replace(param, state=self.params[name].state), "only the state moves"
        assert (param.key in self.away) or param.state is not KeyState.HOT, "a key would have two homes"
        assert (param.key not in self.away) or param.state is not KeyState.PARKED
        self.params[name] = param

    def _step(self) -> None:
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise Interrupted
            self.steps_left -= 1
        for key in UNIVERSE:
            entry = self.params.get((JOB, key))
            if entry is not None and entry.state is KeyState.HOT:
                self.registers[self._cell(key)] += 1
                self.pushed[key] += 1
            elif key not in self.away:
                self.at_ps[key] += 1
                self.pushed[key] += 1

    def _cell(self, key: int) -> tuple[int, int]:
        param = self.params[JOB, key]
        return param.lane, param.slot


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw any state that an interrupted controller may leave, with another job beside it."""
    slots = {lane: draw(st.permutations(range(SLOTS))) for lane in LANES_USED}
    params: dict[tuple[int, int], HotParam] = {}
    away = set()
    for key in UNIVERSE:
        state = draw(st.sampled_from([None, *KeyState]))
        if state is None:
            continue
        lane = lane_of(key)
        params[JOB, key] = HotParam(JOB, key, lane, slots[lane].pop(), state)
        half_moved = state in (KeyState.RESERVED, KeyState.DRAINING)
        if state is KeyState.HOT or (half_moved and draw(st.booleans())):
            away.add(key)
    for key in draw(st.lists(st.sampled_from(UNIVERSE), unique=True, max_size=4)):
        lane = lane_of(key)
        if slots[lane]:
            params[OTHER_JOB, key] = HotParam(OTHER_JOB, key, lane, slots[lane].pop(), KeyState.HOT)
    return World(params, away)


def run(world: World, wanted: Sequence[int], offload: bool, wave_keys: int) -> None:
    moves = plan(world.params.values(), JOB, wanted, offload, SLOTS)
    asyncio.run(execute(moves, world.write, world.command, N_PS, lambda done, total: None, wave_keys))


wanted_sets = st.lists(st.sampled_from(UNIVERSE), unique=True)
wave_sizes = st.integers(1, len(UNIVERSE))


@given(worlds(), wanted_sets, st.booleans(), wave_sizes, st.lists(st.integers(0, 30), max_size=3))
def test_any_state_becomes_the_wanted_state_after_any_interruptions(
    world: World, wanted: list[int], offload: bool, wave_keys: int, interruptions: list[int]
) -> None:
    before = dict(world.params)
    for steps in interruptions:
        world.steps_left = steps
        try:
            run(world, wanted, offload, wave_keys)
        except HotSetError:
            assert world.params == before
            return
        except Interrupted:
            pass
        world.check_sums()
    world.steps_left = None
    try:
        run(world, wanted, offload, wave_keys)
    except HotSetError:
        assert not interruptions and world.params == before
        return
    goal = KeyState.HOT if offload else KeyState.PARKED
    assert {key: param.state for (job, key), param in world.params.items() if job == JOB} == {
        key: goal for key in wanted
    }
    assert {name: param for name, param in world.params.items() if name[0] == OTHER_JOB} == {
        name: param for name, param in before.items() if name[0] == OTHER_JOB
    }
    world.check_sums()
    world.writes = 0
    run(world, wanted, offload, wave_keys)
    assert world.writes == 0


@given(worlds(), wanted_sets, st.booleans())
def test_only_the_difference_is_written(world: World, wanted: list[int], offload: bool) -> None:
    goal = KeyState.HOT if offload else KeyState.PARKED
    before = {key: param for (job, key), param in world.params.items() if job == JOB}
    try:
        run(world, wanted, offload, WAVE)
    except HotSetError:
        assert world.writes == 0
        return
    ways = [
        (before[key].state if key in before else None, goal if key in wanted else None) for key in UNIVERSE
    ]
    assert world.writes == sum(COST[start, end] for start, end in ways if start is not end)
    for key in wanted:
        if key in before:
            assert world.params[JOB, key].slot == before[key].slot


def test_a_full_lane_is_refused_by_name() -> None:
    other = [HotParam(OTHER_JOB, key, 3, key, KeyState.HOT) for key in range(2)]
    keys = [key for key in range(1000) if lane_of(key) == 3][:4]
    assert len(plan(other, JOB, keys[:3], True, slots=5).arriving) == 3
    with pytest.raises(HotSetError, match=mentions(3, 5, 2, 4)):
        plan(other, JOB, keys, True, slots=5)


def test_slots_of_leaving_keys_are_taken_over() -> None:
    keys = [key for key in range(1000) if lane_of(key) == 3][:4]
    hot = [HotParam(JOB, key, 3, slot, KeyState.HOT) for slot, key in enumerate(keys[:2])]
    moves = plan(hot, JOB, keys[2:], True, slots=2)
    assert [move.param.slot for move in moves.arriving] == [0, 1]
    assert [move.goal for move in moves.leaving] == [None, None]


async def do_nothing(*_: object) -> None:
    pass


def test_commands_take_four_keys_of_each_lane() -> None:
    parts: list[Sequence[int]] = []

    async def record(command: Command, ps: int, keys: Sequence[int]) -> None:
        assert {ps_of(key, N_PS) for key in keys} == {ps}
        parts.append(keys)

    keys = list(range(20_000))
    asyncio.run(execute(plan([], JOB, keys, True), do_nothing, record, N_PS, lambda done, total: None))
    assert sorted(key for part in parts for key in part) == keys
    full = [part for part in parts if len(part) == MAX_KEYS]
    assert len(full) >= 0.9 * len(parts)
    balanced = [part for part in full if set(Counter(map(lane_of, part)).values()) == {4}]
    assert len(balanced) >= 0.8 * len(full)


def test_a_wave_is_1024_keys() -> None:
    """Keys without a value move at once."""
    parked = [HotParam(JOB, key, lane_of(key), key, KeyState.PARKED) for key in range(10)]
    moves = plan(parked, JOB, range(100, 2600), True)
    steps: list[tuple[int, int]] = []
    asyncio.run(execute(moves, do_nothing, do_nothing, N_PS, lambda *step: steps.append(step)))
    # The ten leave without a command; nothing else leaves, and nothing arrives without one.
    assert [done for done, _ in steps] == [10, 10, 1034, 2058, 2510]
    assert {total for _, total in steps} == {2510}


def test_plans_are_immutable_hashable_values() -> None:
    param = HotParam(JOB, 5, lane_of(5), 0, KeyState.HOT)
    for value in (Move(param, None, KeyState.HOT), plan([], JOB, [5], True)):
        assert hash(value) == hash(replace(value))
        with pytest.raises(FrozenInstanceError):
            setattr(value, fields(value)[0].name, None)
