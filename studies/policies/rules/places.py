"""Which key is in which slot, of what keeps a bounded number of keys."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from studies.policies.compiling import compiled, int64

NOWHERE = -1
_NOBODY = -1


class Places(NamedTuple):
    """Of all keys of a log, and of so many slots."""

    slot_of: Any
    """int32[distinct]: NOWHERE for a key that has none."""
    key_of: Any
    """int64[slots]"""


def places(distinct: int, slots: int) -> Places:
    """No key has a slot."""
    return Places(np.full(distinct, NOWHERE, np.int32), np.full(slots, _NOBODY, np.int64))


@compiled
def slot_of(of: Places, key: int) -> int:
    """A key's slot, or NOWHERE."""
    return int64(of.slot_of[key])


@compiled
def key_of(of: Places, slot: int) -> int:
    """The key in a slot that was given away."""
    return int64(of.key_of[slot])


@compiled
def give(of: Places, slot: int, key: int) -> None:
    """Let a key without a slot have this one, instead of whoever has it."""
    clear(of, slot)
    of.key_of[slot] = key
    of.slot_of[key] = slot


@compiled
def clear(of: Places, slot: int) -> None:
    """Let nobody have a slot."""
    key = int64(of.key_of[slot])
    if key != _NOBODY:
        of.slot_of[key] = NOWHERE
    of.key_of[slot] = _NOBODY
