"""Reuse distances: how many other keys were accessed since the last access of the same key.

An access hits in an LRU cache that has more slots than its distance (Mattson et al., IBM Systems Journal 9,
1970). Each key has a bit set at the time of its last access; a Fenwick tree over words of 64 bits counts the
bits after a time in logarithmic time. When the times of a group are used up, they are renumbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import KEY, Accesses
from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref

_NEVER = -1
_BITS = 6  # a word has 2^6 bits
_BIT_MASK = (1 << _BITS) - 1
_MIN_WORDS = 4
_TIMES_PER_KEY = 2  # so that a group of n keys is renumbered after n accesses or more
_NEXT, _KEYS_ACCESSED = 0, 1  # rows of `clock`


class _Reuse(NamedTuple):
    words: NDArray[np.uint64]
    """uint64[words]: a bit for each time of a group, set if it is the last access of a key."""
    tree: NDArray[np.int32]
    """int32[words]: a Fenwick tree for each group: numbers of bits set in ranges of its words."""
    first_word: Ints  # int64[groups + 1]: first word of each group
    clock: Ints  # int64[2, groups]: next time, and number of distinct keys accessed so far
    last_access: Ints  # int64[keys]: time of each key's last access, or -1
    group_of: NDArray[np.uint16]
    keys_by_group: NDArray[np.int32]
    first_key: Ints  # int64[groups + 1]: first key of each group in `keys_by_group`
    counts: Ints
    """int64[keys + groups]: for each group its first accesses, then its accesses by distance."""


def reuse_histograms(
    chunks: Iterable[Accesses], group_of: NDArray[np.uint16], groups: int
) -> Iterator[NDArray[np.int64]]:
    """Yield a histogram for each group of keys, whose caches are separate: [keys of the group + 1].

    Element 0 is the number of first accesses; element d + 1 is that of accesses with a distance of d, which
    hit in d + 1 slots. `group_of` is the group of each key: [keys].
    """
    sizes = np.bincount(group_of, minlength=groups)
    words = np.maximum(-(-_TIMES_PER_KEY * sizes // (1 << _BITS)), _MIN_WORDS)
    first_word, first_key = (np.append(0, np.cumsum(each)).astype(np.int64) for each in (words, sizes))
    state = _Reuse(
        np.zeros(first_word[-1], np.uint64),
        np.zeros(first_word[-1], np.int32),
        first_word,
        np.zeros((2, groups), np.int64),
        np.full(len(group_of), _NEVER, np.int64),
        group_of,
        np.argsort(group_of, kind="stable").astype(np.int32),
        first_key,
        np.zeros(len(group_of) + groups, np.int64),
    )
    for chunk in chunks:
        _count_distances(state, chunk)
    for group in range(groups):
        yield state.counts[first_key[group] + group : first_key[group + 1] + group + 1]


@entry_point
def _count_distances(state: _Reuse, accesses: Accesses) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        group = int64(state.group_of[key])
        offset = state.first_key[group] + group
        time = state.last_access[key]
        if time == _NEVER:
            state.clock[_KEYS_ACCESSED, group] += 1
            state.counts[offset] += 1
        else:
            distance = state.clock[_KEYS_ACCESSED, group] - _rank(state, group, time)
            state.counts[offset + 1 + distance] += 1
            _flip_bit(state, group, time, -1)
            state.last_access[key] = _NEVER
        if state.clock[_NEXT, group] == (state.first_word[group + 1] - state.first_word[group]) << _BITS:
            _renumber(state, group)
        time = state.clock[_NEXT, group]
        _flip_bit(state, group, time, 1)
        state.last_access[key] = time
        state.clock[_NEXT, group] = time + 1


@compiled
def _flip_bit(state: _Reuse, group: int, time: int, change: int) -> None:
    begin, end = state.first_word[group], state.first_word[group + 1]
    word = time >> _BITS
    state.words[begin + word] ^= np.uint64(1) << np.uint64(time & _BIT_MASK)
    node = word + 1
    while node <= end - begin:
        state.tree[begin + node - 1] += change
        node += node & -node


@compiled
def _rank(state: _Reuse, group: int, time: int) -> int:
    """Return the number of keys of a group whose last access was at `time` or before."""
    begin, node = state.first_word[group], time >> _BITS
    shift = np.uint64(_BIT_MASK - (time & _BIT_MASK))  # drops the bits of later times
    rank = _popcount(state.words[begin + node] << shift)
    while node > 0:
        rank += int64(state.tree[begin + node - 1])
        node -= node & -node
    return rank


@compiled
def _popcount(word: np.uint64) -> int:
    # Add up neighbouring bits, pairs and nibbles; the product adds up the bytes in its highest byte.
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _renumber(state: _Reuse, group: int) -> None:
    """Renumber the times of a group's last accesses from 0, in the same order."""
    begin, end = state.first_word[group], state.first_word[group + 1]
    live_keys = 0
    for index in range(state.first_key[group], state.first_key[group + 1]):
        key = int64(state.keys_by_group[index])
        if state.last_access[key] != _NEVER:
            state.last_access[key] = _rank(state, group, state.last_access[key]) - 1
            live_keys += 1
    state.words[begin:end] = np.uint64(0)
    state.tree[begin:end] = 0
    for time in range(live_keys):
        state.words[begin + (time >> _BITS)] |= np.uint64(1) << np.uint64(time & _BIT_MASK)
    for word in range(end - begin):
        state.tree[begin + word] += _popcount(state.words[begin + word])
        # A node of the tree passes its sum on to its parent; nodes are numbered from 1.
        parent = word + 1 + ((word + 1) & -(word + 1))
        if parent <= end - begin:
            state.tree[begin + parent - 1] += state.tree[begin + word]
    state.clock[_NEXT, group] = live_keys
