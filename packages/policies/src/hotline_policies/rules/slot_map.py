"""A map between the keys that a policy tracks and their slots."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import compiled, int64
from nativekit.records import Ints

NO_SLOT = -1
_NO_KEY = -1


class SlotMap(NamedTuple):
    slot_of: NDArray[np.int32]  # int32[distinct]: slot of each key of the log, or NO_SLOT
    key_of: Ints  # int64[slots]: key of each slot, or -1


def make_slot_map(distinct: int, slots: int) -> SlotMap:
    return SlotMap(np.full(distinct, NO_SLOT, np.int32), np.full(slots, _NO_KEY, np.int64))


@compiled
def slot_of(slots: SlotMap, key: int) -> int:
    return int64(slots.slot_of[key])


@compiled
def key_of(slots: SlotMap, slot: int) -> int:
    return int64(slots.key_of[slot])


@compiled
def assign(slots: SlotMap, slot: int, key: int) -> None:
    """Assign a slot to a key that has no slot; the key that had this slot is left without a slot."""
    release(slots, slot)
    slots.key_of[slot] = key
    slots.slot_of[key] = slot


@compiled
def release(slots: SlotMap, slot: int) -> None:
    key = int64(slots.key_of[slot])
    if key != _NO_KEY:
        slots.slot_of[key] = NO_SLOT
    slots.key_of[slot] = _NO_KEY
