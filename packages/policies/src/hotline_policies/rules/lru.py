"""Least recently used, all sizes in one pass.

LRU is a stack algorithm (Mattson et al., IBM Systems Journal 9, 1970): a smaller cache holds the first keys
of a larger one. Each size has a mark at its last key (Kim, Hill and Wood, SIGMETRICS 1991), so distances are
not counted: a key that moves to the front pushes one key over each mark before it, out of that mark's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses, Log
from hotline_policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from hotline_policies.rules.linked_lists import (
    NONE,
    Links,
    head,
    length,
    make_lists,
    previous,
    push,
    tail,
    unlink,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets
from nativekit.reference import as_ref

_STACK = 0


class _Stack(NamedTuple):
    sizes: Ints
    links: Links  # the list's head is the most recently used key
    lists: Ints
    level: Octets
    """uint8[distinct]: index of the smallest size that has the key; the number of sizes if none has it."""
    marks: Ints  # int64[sizes]: last key of each size, or NONE while the size is not full
    moves: Ints


def make(log: Log, sizes: Sequence[int]) -> Policy:
    distinct, moves = len(log.keys), zero_moves(sizes)
    stack = _Stack(
        np.array(sizes, np.int64),
        *make_lists(distinct, count=1),
        np.full(distinct, len(sizes), np.uint8),
        np.full(len(sizes), NONE, np.int64),
        moves,
    )
    return Policy(partial(_serve, stack), moves)


@entry_point
def _serve(stack: _Stack, accesses: Accesses, levels: Levels) -> None:
    stack = as_ref(stack)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        level = int64(stack.level[key])
        levels[i] = level
        if key != head(stack.lists, _STACK):
            _move_to_front(stack, key, level)


@compiled
def _move_to_front(stack: _Stack, key: int, level: int) -> None:
    sizes, links, lists, marks = stack.sizes, stack.links, stack.lists, stack.marks
    absent_level = len(sizes)
    if level < absent_level:
        if marks[level] == key:
            marks[level] = previous(links, key)
        unlink(links, lists, _STACK, key)
    push(links, lists, _STACK, key)
    stack.level[key] = 0
    for index in range(level):
        stack.moves[INSTALLS, index] += 1
        last_key = marks[index]
        if last_key != NONE:
            stack.level[last_key] = index + 1
            marks[index] = previous(links, last_key)
            stack.moves[EVICTIONS, index] += 1
        elif length(lists, _STACK) == sizes[index]:
            marks[index] = tail(lists, _STACK)
    if length(lists, _STACK) > sizes[absent_level - 1]:
        unlink(links, lists, _STACK, tail(lists, _STACK))


LRU = PolicySpec("lru", "LRU", "the least recently used key leaves", make, one_pass=True)
