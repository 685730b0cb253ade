"""The sums of a replay log: both sums of a parameter are in one word, which changes by one store.

The lower half of a word has the updates that the current switch acknowledged, the upper half the updates of
lost switches, each mod 2^32. A process that is killed between two stores leaves every word either as it was
or as it is to be, so a sum that moves from one half to the other is never in both, or in neither.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import MAX_U32
from nativekit.compile import compiled, int64
from nativekit.memory import store_item_release
from nativekit.records import Ints

_HALF_BITS = 32


def acknowledged_sums(words: Ints) -> NDArray[np.uint32]:
    """Return a view of the sums that the current switch acknowledged, of words of any shape."""
    sums: NDArray[np.uint32] = words.view(np.uint32)[..., 0::2]  # little-endian
    return sums


def unreplayed_sums(words: Ints) -> NDArray[np.uint32]:
    """Return a view of the sums of updates that lost switches had acknowledged."""
    sums: NDArray[np.uint32] = words.view(np.uint32)[..., 1::2]
    return sums


@compiled
def unreplayed_at(words: Ints, position: int) -> int:
    return int64(words[position]) >> _HALF_BITS & MAX_U32


@compiled
def acknowledge(words: Ints, position: int, delta: int) -> None:
    word = int64(words[position])
    total = word + delta & MAX_U32
    store_item_release(words, position, word & ~MAX_U32 | total)


@compiled
def set_unreplayed(words: Ints, position: int, total: int) -> None:
    store_item_release(words, position, total << _HALF_BITS | int64(words[position]) & MAX_U32)


@compiled
def make_unreplayed(words: Ints) -> None:
    """Move all acknowledged sums to the unreplayed ones, after the loss of the switch."""
    for position in range(len(words)):
        acknowledged = int64(words[position]) & MAX_U32
        if acknowledged:
            total = unreplayed_at(words, position) + acknowledged & MAX_U32
            store_item_release(words, position, total << _HALF_BITS)
