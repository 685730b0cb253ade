"""A job's parameters as positions 0..n-1 of 64-bit keys; arrays have one more element, for all other keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hosts.config import AgentConfigError


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Keys 0..size-1, or the sorted keys `sparse` [size]."""

    size: int
    sparse: NDArray[np.uint64] | None = None

    @staticmethod
    def load(path: Path) -> KeySpace:
        """Map a sparse key space, a .npy file of sorted, distinct uint64 keys; raise `AgentConfigError`."""
        try:
            keys = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise AgentConfigError(f"{path}: cannot be read as an array of keys: {error}") from error
        if keys.dtype != np.uint64 or keys.ndim != 1 or bool(np.any(keys[1:] <= keys[:-1])):
            raise AgentConfigError(
                f"{path}: expected a 1-D array of sorted, distinct uint64 keys, got {keys.dtype}{keys.shape}"
            )
        return KeySpace(len(keys), keys)

    def positions(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the position of each key [n]; `size` for a key outside the space."""
        if self.sparse is None:
            positions_of_dense: NDArray[np.int64] = np.minimum(keys, np.uint64(self.size)).astype(np.int64)
            return positions_of_dense
        positions = np.searchsorted(self.sparse, keys)
        positions[self.sparse.take(positions, mode="clip") != keys] = self.size
        return positions

    def keys(self, positions: NDArray[np.integer]) -> NDArray[np.uint64]:
        if self.sparse is None:
            return positions.astype(np.uint64)
        keys: NDArray[np.uint64] = self.sparse[positions]
        return keys

    def all(self) -> NDArray[np.uint64]:
        return np.arange(self.size, dtype=np.uint64) if self.sparse is None else np.asarray(self.sparse)
