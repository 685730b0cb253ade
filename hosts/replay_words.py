"""The words of a replay log, by value: what the switch has acknowledged, and what lost switches had.

A word has both sums of a value. Behind the words of all rows is the undo area of the row that is being
logged (`hosts.replay` says when it counts).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import DIMS
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release
from nativekit.records import Ints, Words

_HALF_BITS = 32
UNDO_WORDS = 1 + max(DIMS)
"""Words behind those of all rows: a mark, and the former words of the row that is being logged.

The mark is 0 without such a row, and otherwise the place of its first value times `_MARK_FACTOR`, plus its
dim; it is negative if the row is logged, but perhaps not yet marked as answered.
"""
_MARK_FACTOR = 256


def acknowledged_sums(words: Ints) -> NDArray[np.uint32]:
    """Return a view of the sums that the current switch acknowledged, of words of any shape."""
    sums: NDArray[np.uint32] = words.view(np.uint32)[..., 0::2]  # little-endian
    return sums


def unreplayed_sums(words: Ints) -> NDArray[np.uint32]:
    """Return a view of the sums of updates that lost switches had acknowledged."""
    sums: NDArray[np.uint32] = words.view(np.uint32)[..., 1::2]
    return sums


@compiled
def unreplayed_at(words: Ints, place: int) -> int:
    return int64(words[place]) >> _HALF_BITS & MAX_U32


@compiled
def acknowledge(words: Ints, place: int, delta: int) -> None:
    word = int64(words[place])
    total = word + delta & MAX_U32
    store_item_release(words, place, word & ~MAX_U32 | total)


@compiled
def acknowledge_row(words: Ints, first: int, deltas: Words, start: int, dim: int) -> None:
    """Add a row's deltas, `dim` from index `start` on, to the acknowledged sums of its values.

    The row is marked as logged until `remove_mark`, which follows when the row is marked as answered.
    """
    mark_row(words, first, dim)
    for v in range(dim):
        acknowledge(words, first + v, int64(deltas[start + v]))
    mark_logged(words)


@compiled
def mark_row(words: Ints, first: int, dim: int) -> None:
    mark = len(words) - UNDO_WORDS
    for v in range(dim):
        words[mark + 1 + v] = words[first + v]
    store_item_release(words, mark, first * _MARK_FACTOR + dim)


@compiled
def mark_logged(words: Ints) -> None:
    mark = len(words) - UNDO_WORDS
    store_item_release(words, mark, -int64(words[mark]))


@compiled
def remove_mark(words: Ints) -> None:
    store_item_release(words, len(words) - UNDO_WORDS, 0)


@compiled
def undo_marked_row(words: Ints) -> None:
    """Write the former words of a row back that a killed process was logging."""
    mark = len(words) - UNDO_WORDS
    if words[mark] > 0:
        first, dim = int64(words[mark]) // _MARK_FACTOR, int64(words[mark]) % _MARK_FACTOR
        for v in range(dim):
            store_item_release(words, first + v, int64(words[mark + 1 + v]))
        store_item_release(words, mark, 0)


def logged_place(words: Ints) -> int | None:
    """Return the place of the first value of a row that is logged, and perhaps not marked as answered."""
    mark = int(words[-UNDO_WORDS])
    return -mark // _MARK_FACTOR if mark < 0 else None


@compiled
def set_unreplayed(words: Ints, place: int, total: int) -> None:
    store_item_release(words, place, total << _HALF_BITS | int64(words[place]) & MAX_U32)


@compiled
def make_unreplayed(words: Ints, first: int, end: int) -> None:
    """Move acknowledged sums of a range of values to the unreplayed ones, after the loss of their switch."""
    for place in range(first, end):
        acknowledged = int64(words[place]) & MAX_U32
        if acknowledged:
            total = unreplayed_at(words, place) + acknowledged & MAX_U32
            store_item_release(words, place, total << _HALF_BITS)
