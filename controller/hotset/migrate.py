"""Plan and execute moves of keys between their PS and the switch.

At any time either the PS or the switch holds a key's value. All state of a move is in the key's table entry,
so an interrupted move is finished by planning again from the present entries:

    arriving   insert as `reserved`, SEED (the PS hands the value over), modify to `hot`
    leaving    modify to `draining`, COLLECT (the PS takes the value back), delete
    parking    as leaving, but the entry stays as `parked`: the job's offload is off

Keys leave before others arrive, so that their slots are free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from controller.errors import HotSetError
from controller.sizes import SLOTS
from controller.tables import Change, HotParam, KeyState, Update
from foundation.concurrency import gather_or_cancel
from foundation.protocol.codec import Keys
from foundation.protocol.control import MAX_KEYS, Command
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import LANES
from foundation.protocol.register_packing import rank_in_group
from foundation.protocol.rows import ONE_VALUE, RowRanges, banks_of_row, dims_in, lanes_of_rows

WAVE = 1024
"""Keys that move at a time; the switch refuses workers' RPCs for these keys, and only these."""
ANY_SLOT: Mapping[int, int] = {}
"""Slots of arriving keys, if all of them get any that is free."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Move:
    """One key's move from state `start` to state `goal`; None means no entry: the PS has the value."""

    param: HotParam
    start: KeyState | None
    goal: KeyState | None

    @property
    def is_arrival(self) -> bool:
        return self.start is None or self.goal is KeyState.HOT

    @property
    def command(self) -> Command | None:
        """Command for the PS; None if the PS has the value and keeps it, as for a parked key."""
        if self.goal is KeyState.HOT:
            return Command.SEED
        return None if self.start in (None, KeyState.PARKED) else Command.COLLECT

    def preparing_updates(self) -> list[Update]:
        if self.command is Command.SEED and self.start in (None, KeyState.PARKED):
            return [self._update(self.start, KeyState.RESERVED)]
        if self.command is Command.COLLECT and self.start is not KeyState.DRAINING:
            return [self._update(self.start, KeyState.DRAINING)]
        return []

    def final_update(self) -> Update:
        # `_update` uses only whether there is an entry, and after a preparing update there is.
        return self._update(KeyState.RESERVED if self.preparing_updates() else self.start, self.goal)

    def _update(self, start: KeyState | None, goal: KeyState | None) -> Update:
        if goal is None:
            return Update(Change.DELETE, self.param)
        kind = Change.INSERT if start is None else Change.MODIFY
        return Update(kind, self.param if self.param.state is goal else replace(self.param, state=goal))


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    leaving: tuple[Move, ...]
    arriving: tuple[Move, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        return self.leaving + self.arriving

    def summary(self) -> dict[str, int]:
        updates = Counter(
            update.change
            for move in self.moves
            for update in (*move.preparing_updates(), move.final_update())
        )
        commands = Counter(move.command for move in self.moves)
        return {
            "inserts": updates[Change.INSERT],
            "modifies": updates[Change.MODIFY],
            "deletes": updates[Change.DELETE],
            "seeded": commands[Command.SEED],
            "collected": commands[Command.COLLECT],
        }


def plan(
    entries: Iterable[HotParam], job: int, wanted: Sequence[int], offload: bool, slots: int = SLOTS,
    lane_count: int = LANES, ranges: RowRanges = ONE_VALUE, slot_of_key: Mapping[int, int] = ANY_SLOT,
) -> MigrationPlan:  # fmt: skip
    """Plan the moves of a job to the `wanted` distinct keys; raises `HotSetError` if a lane lacks slots.

    `ranges` has the dims of the rows of the job's keys. An arriving row takes its slot of `slot_of_key`, or
    else the lowest one that is free in all banks of its lane; wider rows are placed first.
    """
    goal = KeyState.HOT if offload else KeyState.PARKED
    wanted_keys = set(wanted)
    present_keys: set[int] = set()
    is_used = np.zeros((LANES, slots), np.bool_)
    moves: list[Move] = []
    for param in entries:
        target_state: KeyState | None = param.state
        if param.job == job:
            present_keys.add(param.key)
            target_state = goal if param.key in wanted_keys else None
        if target_state is not None:
            is_used[param.bank : param.banks.stop, param.slot] = True
        if target_state is not param.state:
            moves.append(Move(param, param.state, target_state))
    new_keys = np.array([key for key in wanted if key not in present_keys], dtype=np.uint64)
    for param in _place_rows(job, new_keys, goal, is_used, ranges, lane_count, slot_of_key):
        moves.append(Move(param, None, goal))
    return MigrationPlan(
        leaving=tuple(move for move in moves if not move.is_arrival),
        arriving=tuple(move for move in moves if move.is_arrival),
    )


def _place_rows(
    job: int, keys: Keys, state: KeyState, is_used: NDArray[np.bool_], ranges: RowRanges, lane_count: int,
    slot_of_key: Mapping[int, int],
) -> list[HotParam]:  # fmt: skip
    """Return entries for the rows of `keys` [n], and mark their slots in `is_used` [banks, slots]."""
    dims = dims_in(ranges, keys)
    lanes, slots = lanes_of_rows(keys, dims, lane_count), np.empty(len(keys), np.int64)
    slot_count = is_used.shape[1]
    is_placed = np.zeros(len(keys), np.bool_)
    for k, key in enumerate(keys.tolist() if slot_of_key else ()):
        if (slot := slot_of_key.get(key)) is not None:
            n_banks, lane = banks_of_row(int(dims[k])), int(lanes[k])
            banks = is_used[lane * n_banks : (lane + 1) * n_banks, slot]
            if banks.any():
                raise HotSetError(f"slot {slot} of key {key}: expected a free slot, got one of another row")
            banks[:], slots[k], is_placed[k] = True, slot, True
    for rows in _rows_by_lane(lanes, dims, np.flatnonzero(~is_placed)):
        dim, lane = int(dims[rows[0]]), int(lanes[rows[0]])
        n_banks = banks_of_row(dim)
        banks = is_used[lane * n_banks : (lane + 1) * n_banks]
        # Of so many slots, at least `len(rows)` are free in all banks, unless the banks have fewer slots.
        sufficient_slots = int(np.count_nonzero(banks)) + len(rows)
        free_slots = np.flatnonzero(~banks[:, :sufficient_slots].any(axis=0))
        if len(rows) > len(free_slots):
            of_rows = "" if dim == 1 else f" of rows of {dim} values"
            raise HotSetError(
                f"lane {lane}{of_rows} has {slot_count} slots, {slot_count - len(free_slots)} of them "
                f"taken by entries that stay; the hot set needs {len(rows)} more: choose fewer keys"
            )
        slots[rows] = free_slots[: len(rows)]
        banks[:, slots[rows]] = True
    columns = zip(keys.tolist(), lanes.tolist(), slots.tolist(), dims.tolist(), strict=True)
    return [HotParam(job, key, lane, slot, state, dim) for key, lane, slot, dim in columns]


def _rows_by_lane(
    lanes: NDArray[np.int64], dims: NDArray[np.int64], rows: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return the indices `rows` in groups of one dim and lane, the widest rows first."""
    ordered = rows[np.lexsort((lanes[rows], -dims[rows]))]
    is_new = (np.diff(lanes[ordered]) != 0) | (np.diff(dims[ordered]) != 0)
    bounds = [0, *(np.flatnonzero(is_new) + 1).tolist(), len(ordered)]
    return [ordered[first:stop] for first, stop in pairwise(bounds) if first < stop]


Write = Callable[[Sequence[Update]], Coroutine[object, object, None]]
"""Writes table updates of different entries, in any order; raises on failure."""
CommandServer = Callable[[Command, int, Sequence[int]], Coroutine[object, object, None]]
"""Has a PS carry out a command on its keys, at most `MAX_KEYS`; raises on failure."""


async def execute(
    plan: MigrationPlan,
    write: Write,
    command: CommandServer,
    n_ps: int,
    progress: Progress,
    wave_keys: int = WAVE,
) -> None:
    done_count = 0
    for moves in (plan.leaving, plan.arriving):
        moves_without_value = [move for move in moves if move.command is None]
        await write([move.final_update() for move in moves_without_value])
        done_count += len(moves_without_value)
        progress(done_count, len(plan.moves))
        balanced_moves = _balance_moves([move for move in moves if move.command is not None], n_ps)
        for start in range(0, len(balanced_moves), wave_keys):
            wave = balanced_moves[start : start + wave_keys]
            await write([update for move, _ in wave for update in move.preparing_updates()])
            await gather_or_cancel(command(*arguments) for arguments in _group_commands(wave))
            await write([move.final_update() for move, _ in wave])
            done_count += len(wave)
            progress(done_count, len(plan.moves))


def _balance_moves(moves: Sequence[Move], n_ps: int) -> list[tuple[Move, int]]:
    """Return moves with their PS, ordered so that a wave has about equally many for each PS and lane."""
    ps_ids = ps_ids_of(np.array([move.param.key for move in moves], dtype=np.uint64), n_ps)
    lanes = np.array([move.param.lane for move in moves], dtype=np.uint32)
    order = np.argsort(rank_in_group(ps_ids * np.uint32(LANES) + lanes), kind="stable")
    return [(moves[index], int(ps_ids[index])) for index in order]


def _group_commands(wave: Sequence[tuple[Move, int]]) -> list[tuple[Command, int, list[int]]]:
    keys_by_command: dict[tuple[Command, int], list[int]] = {}
    for move, ps in wave:
        if move.command is not None:
            keys_by_command.setdefault((move.command, ps), []).append(move.param.key)
    return [
        (command, ps, command_keys[start : start + MAX_KEYS])
        for (command, ps), command_keys in keys_by_command.items()
        for start in range(0, len(command_keys), MAX_KEYS)
    ]
