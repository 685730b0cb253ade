"""Belady's optimum with bypass, all sizes in one pass: what no policy can exceed.

Of what is kept and what comes, the key that is needed last leaves (Belady, IBM Systems Journal 5, 1966; a
key that would leave at once does not come in). What is kept is the set of times at which its keys are needed
next: one bit for each time, a bit for each word of those, and so on. It begins the scored part with the best
keys that could be there, whatever was done before.

The kept keys of a smaller size are among those of a larger one (it keeps the soonest of what it has, and has
more to choose from), so one number tells which sizes have a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.log import KEY, NEVER, Accesses, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Kind, Levels, Policy, no_moves

_BITS = 6
_WORD = (1 << _BITS) - 1


class _Times(NamedTuple):
    words: Any
    """uint64[words, sizes]: bits of all floors, one behind the other."""
    floors: Any
    """int64[floors]: where each begins in `words`."""
    used: Any
    """int64[sizes]: times in the set."""
    sizes: Any
    moves: Any


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """From the beginning of the scored part on."""
    moves = no_moves(sizes)
    times = _times(len(log.accesses) - log.split, np.array(sizes, np.int64), moves)
    following = log.following
    _fill(times, _awaited(log, sizes[-1]))
    moves[:] = 0
    at = log.split

    def serve(accesses: Accesses, levels: Levels) -> None:
        nonlocal at
        ahead = np.array(following[at : at + len(accesses)]).astype(np.int64)
        ahead = np.where(ahead == NEVER, -1, ahead - log.split)
        _serve(times, at - log.split, ahead, levels)
        at += len(accesses)

    return Policy(serve, moves)


def _awaited(log: Log, most: int) -> Any:
    """When, in the scored part, the first `most` keys come that were seen before it: times, ascending."""
    seen, found = log.counts > 0, []
    at = log.split
    for chunk in log.chunks(log.split, len(log.accesses)):
        first = np.empty(len(chunk), np.bool_)
        _first_again(chunk, seen, first)
        found.append(np.flatnonzero(first) + at - log.split)
        at += len(chunk)
        if sum(map(len, found)) >= most:
            break
    return np.concatenate(found)[:most] if found else np.zeros(0, np.int64)


def _times(span: int, sizes: Any, moves: Any) -> _Times:
    counts = [span]
    while counts[-1] > 1 or len(counts) == 1:
        counts.append((counts[-1] + _WORD) >> _BITS)
    floors = np.cumsum([0, *counts[1:]])
    return _Times(
        np.zeros((floors[-1], len(sizes)), np.uint64), floors[:-1], np.zeros_like(sizes), sizes, moves
    )


@entry_point
def _first_again(accesses: Any, seen: Any, first: Any) -> None:
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        first[i] = seen[key]
        seen[key] = False


@entry_point
def _fill(times: _Times, awaited: Any) -> None:
    times = borrowed(times)
    for time in awaited:
        for size in range(len(times.sizes)):
            if times.used[size] < times.sizes[size]:
                _insert(times, size, time)


@entry_point
def _serve(times: _Times, begin: int, following: Any, levels: Any) -> None:
    times = borrowed(times)
    sizes = len(times.sizes)
    for i in range(len(following)):
        time, ahead = begin + i, following[i]
        levels[i] = sizes
        for size in range(sizes):
            if times.words[time >> _BITS, size] >> np.uint64(time & _WORD) & np.uint64(1):
                levels[i] = min(levels[i], size)
                _remove(times, size, time)
                if ahead >= 0:
                    _insert(times, size, ahead)
                else:
                    times.moves[EVICTIONS, size] += 1
            elif ahead >= 0:
                _consider(times, size, ahead)


@compiled
def _consider(times: _Times, size: int, ahead: int) -> None:
    if times.used[size] == times.sizes[size]:
        last = _last(times, size)
        if last < ahead:
            return
        _remove(times, size, last)
        times.moves[EVICTIONS, size] += 1
    _insert(times, size, ahead)
    times.moves[INSTALLS, size] += 1


@compiled
def _insert(times: _Times, size: int, time: int) -> None:
    times.used[size] += 1
    for floor in range(len(times.floors)):
        word = times.floors[floor] + (time >> _BITS)
        before = times.words[word, size]
        times.words[word, size] = before | np.uint64(1) << np.uint64(time & _WORD)
        if before:
            return
        time >>= _BITS


@compiled
def _remove(times: _Times, size: int, time: int) -> None:
    times.used[size] -= 1
    for floor in range(len(times.floors)):
        word = times.floors[floor] + (time >> _BITS)
        times.words[word, size] &= ~(np.uint64(1) << np.uint64(time & _WORD))
        if times.words[word, size]:
            return
        time >>= _BITS


@compiled
def _last(times: _Times, size: int) -> int:
    """The latest time in a set that is not empty."""
    time = int64(0)
    for floor in range(len(times.floors) - 1, -1, -1):
        time = time << _BITS | _topmost(times.words[times.floors[floor] + time, size])
    return time


@compiled
def _topmost(word: Any) -> int:
    """The number of the topmost bit that is set."""
    found, step = int64(0), int64(32)
    while step:
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            found += step
        step >>= 1
    return found


BELADY = Kind(
    "belady",
    "optimum",
    "knows the future: of what is kept and what comes, what is needed last leaves (Belady, with bypass)",
    make,
    one_pass=True,
    warms=False,
    is_bound=True,
)
