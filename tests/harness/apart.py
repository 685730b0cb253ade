"""A packing for numbers that are worked out by hand: hinted keys have RPCs of their own, and do not ride."""

from __future__ import annotations

from functools import cache

from foundation.native.plain import plain
from hosts.hotset.worker.hashed import begin_hashed, place_hashed, queue_hashed
from hosts.hotset.worker.packing import clear_piles, pack, pack_piles, pile_cold
from hosts.hotset.worker.state import Calls, is_hinted
from hosts.worker.machine import COMPILED, Machine

_clear_piles, _pile_cold, _pack_piles = plain(clear_piles), plain(pile_cold), plain(pack_piles)
_begin, _place, _queue = plain(begin_hashed), plain(place_hashed), plain(queue_hashed)
_is_hinted = plain(is_hinted)


def _apart(state: Calls, n_keys: int) -> None:
    """Queue calls for the keys that are not hinted, and then those for the others, each in its hash lane."""
    hinted = [_is_hinted(state, int(at)) for at in state.positions[:n_keys]]
    _clear_piles(state)
    for i in reversed(range(n_keys)):
        if not hinted[i]:
            _pile_cold(state, i)
    _pack_piles(state)
    _begin(state)
    for i in range(n_keys):
        if hinted[i]:
            _place(state, i, 0)
    _queue(state)


@cache
def apart() -> Machine:
    """A worker's state machine that packs so."""
    return COMPILED._replace(start=plain(COMPILED.start, {pack: _apart}))
