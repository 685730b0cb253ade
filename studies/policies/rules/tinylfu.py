"""TinyLFU (Einziger et al., ACM ToS 13, 2017): LRU that admits a key if a sketch ranks it over its victim."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from nativekit.compile import compiled, int64
from nativekit.records import Ints
from nativekit.reference import as_ref
from studies.compile import entry_point
from studies.policies.log import KEY, Accesses, Log
from studies.policies.policy import EVICTIONS, INSTALLS, Levels, Policy, PolicySpec, zero_moves
from studies.policies.rules.linked_lists import Links, length, make_lists, push, tail, unlink
from studies.policies.rules.sketch import Sketch, count_access, estimate, make_sketch
from studies.policies.rules.slot_map import NO_SLOT, SlotMap, assign, key_of, make_slot_map, slot_of

_MAIN = 0


class _TinyLfuState(NamedTuple):
    sketch: Sketch
    links: Links
    lists: Ints
    slots: SlotMap
    moves: Ints


def make(log: Log, sizes: Sequence[int]) -> Policy:
    (size,), moves = sizes, zero_moves(sizes)
    slots = make_slot_map(len(log.keys), size)
    state = _TinyLfuState(make_sketch(size), *make_lists(size, count=1), slots, moves)
    return Policy(partial(_serve, state), moves)


@entry_point
def _serve(state: _TinyLfuState, accesses: Accesses, levels: Levels) -> None:
    state = as_ref(state)
    for i in range(len(accesses)):
        key = int64(accesses[i]) & KEY
        slot = slot_of(state.slots, key)
        levels[i] = slot == NO_SLOT
        count_access(state.sketch, key)
        if slot == NO_SLOT:
            _admit(state, key)
        else:
            unlink(state.links, state.lists, _MAIN, slot)
            push(state.links, state.lists, _MAIN, slot)


@compiled
def _admit(state: _TinyLfuState, key: int) -> None:
    slot = length(state.lists, _MAIN)
    if slot == len(state.slots.key_of):
        slot = tail(state.lists, _MAIN)
        if estimate(state.sketch, key) <= estimate(state.sketch, key_of(state.slots, slot)):
            return
        unlink(state.links, state.lists, _MAIN, slot)
        state.moves[EVICTIONS, 0] += 1
    assign(state.slots, slot, key)
    push(state.links, state.lists, _MAIN, slot)
    state.moves[INSTALLS, 0] += 1


TINYLFU = PolicySpec("tinylfu", "TinyLFU", "LRU that admits keys by a sketch of recent accesses", make)
