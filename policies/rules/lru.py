"""Least recently used, all sizes in one pass.

LRU is a stack algorithm (Mattson et al., IBM Systems Journal 9, 1970): a smaller cache holds the first keys
of a larger one. A mark at each size's last key (Kim, Hill and Wood, SIGMETRICS 1991) tells in which of them
a key is, with no distance counted: a key that comes to the front pushes one key over each mark before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from native.reference import borrowed
from policies.compiling import compiled, entry_point, int64
from policies.log import KEY, Accesses, Log
from policies.policy import EVICTIONS, INSTALLS, Kind, Levels, Policy, no_moves

_NONE = -1
_HEAD, _TAIL, _LENGTH = 0, 1, 2


class _Stack(NamedTuple):
    sizes: Any
    """int64[sizes]"""
    before: Any
    """int32[distinct]: the key that was used next after it."""
    behind: Any
    """int32[distinct]"""
    level: Any
    """uint8[distinct]"""
    marks: Any
    """int64[sizes]: the last key of each size, or _NONE while there are fewer keys."""
    ends: Any
    """int64[3]"""
    moves: Any


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Every key that is accessed is admitted."""
    distinct, moves = len(log.keys), no_moves(sizes)
    stack = _Stack(
        np.array(sizes, np.int64),
        np.full(distinct, _NONE, np.int32),
        np.full(distinct, _NONE, np.int32),
        np.full(distinct, len(sizes), np.uint8),
        np.full(len(sizes), _NONE, np.int64),
        np.array([_NONE, _NONE, 0], np.int64),
        moves,
    )

    def serve(accesses: Accesses, levels: Levels) -> None:
        _serve(stack, accesses, levels)

    return Policy(serve, moves)


@entry_point
def _serve(stack: _Stack, accesses: Any, levels: Any) -> None:
    stack = borrowed(stack)
    ends = stack.ends
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        level = int64(stack.level[key])
        levels[i] = level
        if key != ends[_HEAD]:
            _to_front(stack, key, level)


@compiled
def _to_front(stack: _Stack, key: int, level: int) -> None:
    sizes, before, behind, marks, ends = stack.sizes, stack.before, stack.behind, stack.marks, stack.ends
    absent = len(sizes)
    head = ends[_HEAD]
    if level < absent:
        if marks[level] == key:
            marks[level] = before[key]
        _unlink(stack, key)
    before[key], behind[key] = _NONE, head
    if head == _NONE:
        ends[_TAIL] = key
    else:
        before[head] = key
    ends[_HEAD] = key
    stack.level[key] = 0
    ends[_LENGTH] += level == absent
    for size in range(level):
        stack.moves[INSTALLS, size] += 1
        last = marks[size]
        if last != _NONE:
            stack.level[last] = size + 1
            marks[size] = before[last]
            stack.moves[EVICTIONS, size] += 1
        elif ends[_LENGTH] == sizes[size]:
            marks[size] = ends[_TAIL]
    if ends[_LENGTH] > sizes[absent - 1]:
        _unlink(stack, int64(ends[_TAIL]))
        ends[_LENGTH] -= 1


@compiled
def _unlink(stack: _Stack, key: int) -> None:
    before, behind = int64(stack.before[key]), int64(stack.behind[key])
    if before == _NONE:
        stack.ends[_HEAD] = behind
    else:
        stack.behind[before] = behind
    if behind == _NONE:
        stack.ends[_TAIL] = before
    else:
        stack.before[behind] = before


LRU = Kind("lru", "LRU", "the least recently used key leaves", make, one_pass=True)
