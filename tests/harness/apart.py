"""A packing for numbers worked out by hand: hinted keys have RPCs of their own, and do not ride."""

from __future__ import annotations

from functools import cache

from foundation.compiled import entry_point
from hosts.hotset.worker.hashed import clear_chains, place_in_hash_lane, queue_chains
from hosts.hotset.worker.packing import bucket_cold_key, clear_buckets, pack, pack_buckets
from hosts.hotset.worker.state import Calls, is_hinted
from hosts.worker.machine import COMPILED, Machine
from nativekit.plain import plain
from nativekit.reference import as_ref


@entry_point
def _apart(state: Calls, n_keys: int, _uses_switch: bool) -> None:
    """Queue calls for the keys that are not hinted, and then those for the others, each in its hash lane."""
    state = as_ref(state)
    clear_buckets(state)
    for i in range(n_keys - 1, -1, -1):
        if not is_hinted(state, state.positions[i]):
            bucket_cold_key(state, i)
    pack_buckets(state)
    clear_chains(state)
    for i in range(n_keys):
        if is_hinted(state, state.positions[i]):
            place_in_hash_lane(state, i, 0)
    queue_chains(state)


@cache
def apart() -> Machine:
    """Return a worker's state machine that packs hinted keys apart."""
    return COMPILED._replace(start=plain(COMPILED.start, {pack: _apart}))
