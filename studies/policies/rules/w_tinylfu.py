"""W-TinyLFU: a small LRU window before a segmented LRU whose door is kept by a sketch.

(Einziger, Friedman and Manes, ACM ToS 13, 2017.) The window has 1 % of the places, at least one; of the
others 80 % are for keys that were accessed again.
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
from studies.policies.rules.chains import NONE, chains, length, push, tail, unlink
from studies.policies.rules.places import NOWHERE, Places, clear, give, key_of, places, slot_of
from studies.policies.rules.sketch import Sketch, estimate, note, sketch

WINDOW, PROBATION, PROTECTED = 0, 1, 2
WINDOW_SHARE, PROTECTED_SHARE = 0.01, 0.8


class _Kept(NamedTuple):
    seen: Sketch
    links: Any
    ends: Any
    rooms: Any
    """int64[3]: places of the window, of the rest, and of these for what is protected."""
    places: Places
    """One more than are kept, for who has just come."""
    list_of: Any
    """int8[size + 1]"""
    free: Any
    """int64[1]: the slot that nobody has."""
    moves: Any


def rooms(size: int) -> tuple[int, int, int]:
    """Places of the window, of the rest, and of these for what is protected."""
    window = max(1, round(WINDOW_SHARE * size))
    return window, size - window, int(PROTECTED_SHARE * (size - window))


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Every key comes into the window; from there the sketch lets it on, or it leaves."""
    (size,), moves = sizes, no_moves(sizes)
    kept = _Kept(
        sketch(size),
        *chains(size + 1, 3),
        np.array(rooms(size), np.int64),
        places(len(log.keys), size + 1),
        np.zeros(size + 1, np.int8),
        np.zeros(1, np.int64),
        moves,
    )
    return Policy(partial(_serve, kept), moves)


@entry_point
def _serve(kept: _Kept, accesses: Any, levels: Any) -> None:
    kept = borrowed(kept)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(kept.places, key)
        levels[i] = slot == NOWHERE
        note(kept.seen, key)
        if slot == NOWHERE:
            _come(kept, key)
        else:
            _touch(kept, slot)


@compiled
def _put(kept: _Kept, which: int, slot: int) -> None:
    push(kept.links, kept.ends, which, slot)
    kept.list_of[slot] = which


@compiled
def _touch(kept: _Kept, slot: int) -> None:
    which = int64(kept.list_of[slot])
    unlink(kept.links, kept.ends, which, slot)
    if which == WINDOW:
        _put(kept, WINDOW, slot)
        return
    _put(kept, PROTECTED, slot)
    if length(kept.ends, PROTECTED) > kept.rooms[PROTECTED]:
        last = tail(kept.ends, PROTECTED)
        unlink(kept.links, kept.ends, PROTECTED, last)
        _put(kept, PROBATION, last)


@compiled
def _come(kept: _Kept, key: int) -> None:
    slot = kept.free[0]
    kept.free[0] += 1  # while there are places that nobody had
    give(kept.places, slot, key)
    _put(kept, WINDOW, slot)
    kept.moves[INSTALLS, 0] += 1
    if length(kept.ends, WINDOW) > kept.rooms[WINDOW]:
        candidate = tail(kept.ends, WINDOW)
        unlink(kept.links, kept.ends, WINDOW, candidate)
        if length(kept.ends, PROBATION) + length(kept.ends, PROTECTED) < kept.rooms[1]:
            _put(kept, PROBATION, candidate)
        else:
            _contest(kept, candidate)


@compiled
def _contest(kept: _Kept, candidate: int) -> None:
    """One of candidate and victim leaves."""
    which = PROBATION if tail(kept.ends, PROBATION) != NONE else PROTECTED
    leaver, victim = candidate, tail(kept.ends, which)
    if victim != NONE and (
        estimate(kept.seen, key_of(kept.places, candidate)) > estimate(kept.seen, key_of(kept.places, victim))
    ):
        unlink(kept.links, kept.ends, which, victim)
        _put(kept, PROBATION, candidate)
        leaver = victim
    clear(kept.places, leaver)
    kept.free[0] = leaver
    kept.moves[EVICTIONS, 0] += 1


W_TINYLFU = Kind(
    "w-tinylfu",
    "W-TinyLFU",
    "a small LRU window before a segmented LRU, whose door is kept by a sketch of what was accessed lately",
    make,
)
