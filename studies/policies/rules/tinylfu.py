"""TinyLFU: an LRU cache whose door is kept by a sketch (Einziger, Friedman and Manes, ACM ToS 13, 2017).

A key is admitted where it was accessed more often lately than the one that would leave for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from nativekit.reference import borrowed
from studies.policies.compiling import compiled, entry_point, int64
from studies.policies.log import KEY, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Kind, Policy, no_moves
from studies.policies.rules.chains import chains, length, push, tail, unlink
from studies.policies.rules.places import NOWHERE, Places, give, key_of, places, slot_of
from studies.policies.rules.sketch import Sketch, estimate, note, sketch

_MAIN = 0


class _Kept(NamedTuple):
    seen: Sketch
    links: Any
    ends: Any
    places: Places
    moves: Any


def make(log: Log, sizes: Sequence[int]) -> Policy:
    """Free places are filled with whatever comes."""
    (size,), moves = sizes, no_moves(sizes)
    kept = _Kept(sketch(size), *chains(size, 1), places(len(log.keys), size), moves)
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
            _knock(kept, key)
        else:
            unlink(kept.links, kept.ends, _MAIN, slot)
            push(kept.links, kept.ends, _MAIN, slot)


@compiled
def _knock(kept: _Kept, key: int) -> None:
    slot = length(kept.ends, _MAIN)
    if slot == len(kept.places.key_of):
        slot = tail(kept.ends, _MAIN)
        if estimate(kept.seen, key) <= estimate(kept.seen, key_of(kept.places, slot)):
            return
        unlink(kept.links, kept.ends, _MAIN, slot)
        kept.moves[EVICTIONS, 0] += 1
    give(kept.places, slot, key)
    push(kept.links, kept.ends, _MAIN, slot)
    kept.moves[INSTALLS, 0] += 1


TINYLFU = Kind("tinylfu", "TinyLFU", "LRU whose door is kept by a sketch of what was accessed lately", make)
