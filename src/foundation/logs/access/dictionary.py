"""Indices of distinct keys in the order of their first access, by a compiled hash table of bounded memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.block import Keys
from nativekit.compile import cached_entry_point, compiled, int64

_HERE = Path(__file__).parent
SOURCES = (Path(__file__), _HERE / "steps.py")  # of all compiled functions of this folder
_FREE_SLOT = np.int32(-1)
_NO_SLOTS = np.zeros(0, np.int32)
_MAX_LOAD = 0.75  # share of slots in use above which the hash table grows
_INITIAL_SLOTS = 1 << 16
MAX_KEYS = 2**31 - 1
_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, the multiplier of Fibonacci hashing."""


class Dictionary:
    """Distinct keys with their tables; takes at most about 25 bytes of memory per key, twice that to grow."""

    def __init__(self) -> None:
        self._slots = np.full(_INITIAL_SLOTS, _FREE_SLOT, np.int32)
        self._keys = np.empty(int(_INITIAL_SLOTS * _MAX_LOAD), np.uint64)
        self._tables = np.empty(len(self._keys), np.uint16)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def keys(self) -> Keys:
        return self._keys[: self._length]

    @property
    def tables(self) -> NDArray[np.uint16]:
        return self._tables[: self._length]

    def take_sorted(self) -> tuple[Keys, NDArray[np.uint16], NDArray[np.uint32]]:
        """Return the ascending keys, their tables, and each index's rank among them; empty the dictionary."""
        self._slots = _NO_SLOTS  # free the memory before the sort takes some
        order = np.argsort(self.keys)
        rank = np.empty(len(order), np.uint32)
        rank[order] = np.arange(len(order), dtype=np.uint32)
        keys, self._keys = self.keys[order], np.empty(0, np.uint64)
        tables, self._tables = self.tables[order], np.empty(0, np.uint16)
        return keys, tables, rank

    def encode(self, keys: Keys, tables: NDArray[np.uint16] | None) -> NDArray[np.uint32]:
        indices = np.empty(len(keys), np.uint32)
        table_array = np.zeros(0, np.uint16) if tables is None else tables
        position = 0
        while True:  # until all fit: `_encode` stops where the arrays are full
            arrays = self._slots, self._keys, self._tables
            position, self._length = _encode(*arrays, self._length, keys, table_array, indices, position)
            if position == len(keys):
                return indices
            self._grow()

    def _grow(self) -> None:
        if self._length >= MAX_KEYS:
            raise DataError(f"expected at most {MAX_KEYS:,} keys, got more")
        slots = 2 * len(self._slots)
        self._slots = _NO_SLOTS  # free the memory before larger arrays are allocated
        capacity = min(int(slots * _MAX_LOAD), MAX_KEYS)
        self._keys = np.concatenate([self._keys, np.empty(capacity - len(self._keys), np.uint64)])
        self._tables = np.concatenate([self._tables, np.empty(capacity - len(self._tables), np.uint16)])
        self._slots = np.full(slots, _FREE_SLOT, np.int32)
        _rehash(self._slots, self.keys)


@compiled
def _slot(key: np.uint64, mask: int) -> int:
    mixed = key * _GOLDEN_RATIO  # its upper bits depend on all bits of the key
    return int64(mixed >> np.uint64(32)) & mask


def _encode_plain(
    slots: NDArray[np.int32], known_keys: Keys, known_tables: NDArray[np.uint16], length: int, keys: Keys,
    tables: NDArray[np.uint16], indices: NDArray[np.uint32], begin: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the keys' indices from `begin`; stop if `known_keys` is full. Return end and new length."""
    mask = len(slots) - 1
    for i in range(begin, len(keys)):
        key = keys[i]
        slot = _slot(key, mask)
        # Keys of different tables differ (`block.key_in_table`), so tables need not be compared.
        while slots[slot] != _FREE_SLOT and known_keys[slots[slot]] != key:
            slot = (slot + 1) & mask
        if slots[slot] == _FREE_SLOT:
            if length == len(known_keys):
                return i, length
            slots[slot] = length
            known_keys[length] = key
            known_tables[length] = tables[i] if len(tables) else 0
            length += 1
        indices[i] = slots[slot]
    return len(keys), length


def _rehash_plain(slots: NDArray[np.int32], keys: Keys) -> None:
    mask = len(slots) - 1
    for index in range(len(keys)):
        slot = _slot(keys[index], mask)
        while slots[slot] != _FREE_SLOT:
            slot = (slot + 1) & mask
        slots[slot] = index


# The compiled functions.
_encode = cached_entry_point(_encode_plain, _HERE, SOURCES)
_rehash = cached_entry_point(_rehash_plain, _HERE, SOURCES)
