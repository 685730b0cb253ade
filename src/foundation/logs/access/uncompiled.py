"""The compiled functions of this folder in numpy, for where numba is missing: equal, and twice as slow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.block import Keys
from foundation.logs.access.dictionary import MAX_KEYS, Dictionary
from nativekit.installed import HAS_NUMBA
from nativekit.records import Ints

_KEY_BITS = 32


class UncompiledDictionary(Dictionary):
    """A `Dictionary` by Python's dict, which takes some 100 bytes of memory per key."""

    def __init__(self) -> None:
        super().__init__()
        self._index_of: dict[int, int] = {}
        """Key -> its index, in the order of the indices."""
        self._new_tables: list[NDArray[np.uint16]] = []
        """Tables of the keys, in the order of the indices; one array for each call of `encode`."""

    def __len__(self) -> int:
        return len(self._index_of)

    def encode(self, keys: Keys, tables: NDArray[np.uint16] | None) -> NDArray[np.uint32]:
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        by_first_access = np.argsort(first)
        known = len(self._index_of)
        indices = np.empty(len(distinct), np.uint32)
        indices[by_first_access] = [
            self._index_of.setdefault(key, len(self._index_of)) for key in distinct[by_first_access].tolist()
        ]
        if len(self._index_of) > MAX_KEYS:
            raise DataError(f"expected at most {MAX_KEYS:,} keys, got more")
        first_of_new = first[by_first_access][indices[by_first_access] >= known]
        self._new_tables.append(
            np.zeros(len(first_of_new), np.uint16) if tables is None else tables[first_of_new]
        )
        encoded: NDArray[np.uint32] = indices[inverse]
        return encoded

    def take_sorted(self) -> tuple[Keys, NDArray[np.uint16], NDArray[np.uint32]]:
        self._length = len(self._index_of)
        self._keys = np.fromiter(self._index_of, np.uint64, self._length)
        self._tables = np.concatenate([*self._new_tables, np.empty(0, np.uint16)])
        self._index_of, self._new_tables = {}, []
        return super().take_sorted()


def make_dictionary() -> Dictionary:
    return Dictionary() if HAS_NUMBA else UncompiledDictionary()


def count(accesses: NDArray[np.uint32], ignored_bits: int, counts: Ints) -> None:
    indices = accesses & np.uint32(~ignored_bits & 0xFFFF_FFFF)
    # Those above are of pulls, which are not counted unless their bit is ignored.
    counts += np.bincount(indices[indices < 1 << (_KEY_BITS - 1)], minlength=len(counts))


def sort_steps(part: NDArray[np.uint32], starts: Ints, rank: NDArray[np.uint32]) -> Ints:
    """Sort each step by the keys' ranks, pulls first, and drop repeated accesses, all in place."""
    is_pull = np.uint32(1 << (_KEY_BITS - 1))
    steps = np.repeat(np.arange(len(starts) - 1, dtype=np.uint64), np.diff(starts))
    keys = rank[part & ~is_pull] | (part & is_pull ^ is_pull)
    accesses = np.unique(steps << np.uint64(_KEY_BITS) | keys)
    part[: len(accesses)] = accesses.astype(np.uint32) ^ is_pull  # the lower half; as before the sort
    first_of_step = np.arange(len(starts), dtype=np.uint64) << np.uint64(_KEY_BITS)
    return np.searchsorted(accesses, first_of_step).astype(np.int64)
