"""TinyLFU: an LRU cache whose door is kept by a sketch (Einziger, Friedman and Manes, ACM ToS 13, 2017).

A key is admitted where it was accessed more often lately than the one that would leave for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from native.reference import borrowed
from policies.compiling import compiled, entry_point, int64
from policies.log import KEY, Accesses, Log
from policies.policy import EVICTIONS, INSTALLS, Kind, Levels, Policy, no_moves
from policies.rules.chains import chains, length, push, tail, unlink
from policies.rules.sketch import Sketch, estimate, note, sketch

_MAIN = 0


class _Kept(NamedTuple):
    seen: Sketch
    links: Any
    ends: Any
    slot_of: Any
    """int32[distinct]: -1 where a key is not kept."""
    key_of: Any
    """int64[size]"""
    moves: Any


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Free places are filled with whatever comes."""
    (size,), moves = sizes, no_moves(sizes)
    slot_of = np.full(len(log.keys), -1, np.int32)
    kept = _Kept(sketch(size), *chains(size, 1), slot_of, np.zeros(size, np.int64), moves)

    def serve(accesses: Accesses, levels: Levels) -> None:
        _serve(kept, accesses, levels)

    return Policy(serve, moves)


@entry_point
def _serve(kept: _Kept, accesses: Any, levels: Any) -> None:
    kept = borrowed(kept)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = int64(kept.slot_of[key])
        levels[i] = slot < 0
        note(kept.seen, key)
        if slot < 0:
            _knock(kept, key)
        else:
            unlink(kept.links, kept.ends, _MAIN, slot)
            push(kept.links, kept.ends, _MAIN, slot)


@compiled
def _knock(kept: _Kept, key: int) -> None:
    slot = length(kept.ends, _MAIN)
    if slot == len(kept.key_of):
        slot = tail(kept.ends, _MAIN)
        if estimate(kept.seen, key) <= estimate(kept.seen, kept.key_of[slot]):
            return
        unlink(kept.links, kept.ends, _MAIN, slot)
        kept.slot_of[kept.key_of[slot]] = -1
        kept.moves[EVICTIONS, 0] += 1
    kept.key_of[slot] = key
    kept.slot_of[key] = slot
    push(kept.links, kept.ends, _MAIN, slot)
    kept.moves[INSTALLS, 0] += 1


TINYLFU = Kind("tinylfu", "TinyLFU", "LRU whose door is kept by a sketch of what was accessed lately", make)
