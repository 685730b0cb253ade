"""What must be true of a history, in plain terms, with none of the agents' code.

Jepsen's way: operations were invoked and completed at times of one clock, some never. A key's value at the
end is the sum of all that was pushed to it and acknowledged, modulo 2^32; what a worker that was killed had
not been told may have been added, once, or not. A pull brings at least what was acknowledged before it was
invoked, and at most what had been invoked before it was completed (the bounds of Jepsen's counter).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.rpc import PULL, PUSH
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, RecordTable, Words
from simulator.faults.operations import KEYS, Line, Operation, Operations, Settings, delta_of

_MOST_UNKNOWN = 12
"""Unacknowledged pushes of a key whose sums are tried: their number doubles with each."""
BLIND = np.array([[0, 0]], np.int64)


class Judgement(NamedTuple):
    """Of one history."""

    sent: int
    """Lanes that were acknowledged."""
    lost: int
    """Keys that hold less than they must."""
    doubled: int
    """Keys that hold more, or anything else."""
    early: int
    """Pulls that missed what had been acknowledged."""
    late: int
    """Pulls that brought what nobody had pushed yet."""

    @property
    def holds(self) -> bool:
        """Nothing is wrong."""
        return not (self.lost or self.doubled or self.early or self.late)


def judge(
    operations: Operations,
    held: NDArray[np.uint32],
    blind: NDArray[np.int64] = BLIND,
    uncertain: Iterable[tuple[int, int]] = (),
) -> Judgement:
    """Judge a history by what is held at the end, [KEYS].

    `uncertain` are keys and what may be in them, or not, besides.

    `blind` are intervals, int64[n, 2], in which a pull may miss what was acknowledged: from a switch's end
    until what it had is pushed again.
    """
    sums, unknown, sent = _sums(operations)
    for key, delta in uncertain:
        unknown.setdefault(key, []).append(delta)
    lost = doubled = 0
    for key in range(KEYS):
        rest = (int(held[key]) - int(sums[key])) % 2**32
        possible = {0}
        for delta in unknown.get(key, [])[:_MOST_UNKNOWN]:
            possible |= {(value + delta) % 2**32 for value in possible}
        if rest not in possible:
            lost += rest >= 2**31
            doubled += rest < 2**31
    early = late = 0
    if not operations.me.is_extreme:
        early, late = _pulls_out_of_bounds(*operations, blind).tolist()
    return Judgement(sent, lost, doubled, early, late)


def _sums(operations: Operations) -> tuple[NDArray[np.int64], dict[int, list[int]], int]:
    """Sum of what was acknowledged, [KEYS]; what else was pushed, by key; and how many lanes were
    acknowledged."""
    sums = np.zeros(KEYS, np.int64)
    rest = np.full((4096, 2), -1, np.int64)
    sent, left = (int(number) for number in _add_up(*operations, sums, rest))
    unknown: dict[int, list[int]] = {}
    for key, delta in rest[:left].tolist():
        unknown.setdefault(key, []).append(delta)
    return sums, unknown, sent


@entry_point
def _add_up(
    me: Settings,
    lines: Records[Line],
    history: RecordTable[Operation],
    _pulled: Words,
    sums: Ints,
    rest: Ints,
) -> Ints:
    sent, left = int64(0), int64(0)
    for w in range(len(lines)):
        for k in range(int64(lines[w].operations)):
            operation = history[w, k]
            if operation.kind == PUSH:
                for key in range(KEYS):
                    if _has(operation.added, key):
                        sums[key] += delta_of(me, w, k, key)
                        sent += 1
                    elif _has(operation.mask, key) and left < len(rest):
                        rest[left, 0], rest[left, 1] = key, delta_of(me, w, k, key)
                        left += 1
    return np.array([sent, left])


@entry_point
def _pulls_out_of_bounds(
    me: Settings, lines: Records[Line], history: RecordTable[Operation], pulled: Words, blind: Ints
) -> Ints:
    """Numbers of keys that pulls brought with too little, and with too much."""
    found = np.zeros(2, np.int64)
    for w in range(len(lines)):
        for k in range(int64(lines[w].operations)):
            pull = history[w, k]
            if pull.kind != PULL or pull.completed == 0:
                continue
            least, most = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
            for v in range(len(lines)):
                for j in range(int64(lines[v].operations)):
                    push = history[v, j]
                    if push.kind == PUSH and push.invoked < pull.completed:
                        before = push.completed != 0 and push.completed <= pull.invoked
                        for key in range(KEYS):
                            if _has(push.mask & pull.mask, key):
                                delta = delta_of(me, v, j, key)
                                most[key] += delta
                                least[key] += delta if before else 0
            is_blind = _is_within(blind, int64(pull.invoked), int64(pull.completed))
            for key in range(KEYS):
                if _has(pull.mask, key):
                    value = int64(pulled[w, k, key])
                    found[0] += value < least[key] and not is_blind
                    found[1] += value > most[key]
    return found


@compiled
def _has(mask: np.uint64, key: int) -> bool:
    return bool((mask >> np.uint64(key)) & np.uint64(1))


@compiled
def _is_within(blind: Ints, begin: int, end: int) -> bool:
    """Whether an interval has a time in common with one of many."""
    found = False
    for n in range(len(blind)):
        found |= begin < blind[n, 1] and end > blind[n, 0]
    return found
