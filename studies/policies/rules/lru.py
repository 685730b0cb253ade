"""Least recently used, all sizes in one pass.

LRU is a stack algorithm (Mattson et al., IBM Systems Journal 9, 1970): a smaller cache holds the first keys
of a larger one. A mark at each size's last key (Kim, Hill and Wood, SIGMETRICS 1991) tells in which of them
a key is, with no distance counted: a key that comes to the front pushes one key over each mark before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.log import KEY, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Kind, Policy, no_moves
from studies.policies.rules.chains import NONE, before, chains, head, length, push, tail, unlink

_STACK = 0


class _Stack(NamedTuple):
    sizes: Any
    """int64[sizes]"""
    links: Any
    """The most recently used key comes first."""
    ends: Any
    level: Any
    """uint8[distinct]"""
    marks: Any
    """int64[sizes]: the last key of each size, or NONE while there are fewer keys."""
    moves: Any


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Every key that is accessed is admitted."""
    distinct, moves = len(log.keys), no_moves(sizes)
    stack = _Stack(
        np.array(sizes, np.int64),
        *chains(distinct, 1),
        np.full(distinct, len(sizes), np.uint8),
        np.full(len(sizes), NONE, np.int64),
        moves,
    )
    return Policy(partial(_serve, stack), moves)


@entry_point
def _serve(stack: _Stack, accesses: Any, levels: Any) -> None:
    stack = borrowed(stack)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        level = int64(stack.level[key])
        levels[i] = level
        if key != head(stack.ends, _STACK):
            _to_front(stack, key, level)


@compiled
def _to_front(stack: _Stack, key: int, level: int) -> None:
    sizes, links, ends, marks = stack.sizes, stack.links, stack.ends, stack.marks
    absent = len(sizes)
    if level < absent:
        if marks[level] == key:
            marks[level] = before(links, key)
        unlink(links, ends, _STACK, key)
    push(links, ends, _STACK, key)
    stack.level[key] = 0
    for size in range(level):
        stack.moves[INSTALLS, size] += 1
        last = marks[size]
        if last != NONE:
            stack.level[last] = size + 1
            marks[size] = before(links, last)
            stack.moves[EVICTIONS, size] += 1
        elif length(ends, _STACK) == sizes[size]:
            marks[size] = tail(ends, _STACK)
    if length(ends, _STACK) > sizes[absent - 1]:
        unlink(links, ends, _STACK, tail(ends, _STACK))


LRU = Kind("lru", "LRU", "the least recently used key leaves", make, one_pass=True)
