"""The dims of the rows that a log's keys name, as a column of the log has them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.logs.access.block import Dims, Keys
from foundation.logs.access.uncompiled import make_dictionary


class DimsByKey:
    """The dim of each key so far (`block.KnownDims`); takes at most about 26 bytes of memory per key."""

    def __init__(self) -> None:
        self._dictionary = make_dictionary()
        self._dims = np.zeros(0, np.uint8)
        """Dim of each key of the dictionary; 0 if it is not known."""

    def expected(self, keys: Keys, dims: Dims) -> Dims:
        indices = self._indices(keys)
        expected: Dims = self._dims[indices]
        is_new = expected == 0
        if is_new.any():
            _, first, key_of = np.unique(indices[is_new], return_index=True, return_inverse=True)
            expected[is_new] = dims[is_new][first][key_of]
        return expected

    def add(self, keys: Keys, dims: Dims) -> None:
        self._dims[self._indices(keys)] = dims

    def of(self, keys: Keys) -> Dims:
        """Return the dims of keys that were added."""
        dims: Dims = self._dims[self._indices(keys)]
        return dims

    def _indices(self, keys: Keys) -> NDArray[np.uint32]:
        indices = self._dictionary.encode(keys, None)
        missing = len(self._dictionary) - len(self._dims)
        if missing > 0:
            self._dims = np.append(self._dims, np.zeros(max(missing, len(self._dims)), np.uint8))
        return indices
