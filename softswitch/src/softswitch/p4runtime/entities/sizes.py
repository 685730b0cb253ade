"""Sizes of groups and sessions, with their sum, which limits them together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from softswitch.p4runtime.batch import Batch

K = TypeVar("K", bound=Hashable)


class Sizes(Generic[K]):
    """The size of each group, by its key; the total is updated with each change."""

    def __init__(self) -> None:
        self._sizes: dict[K, int] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def total_without(self, key: K | None) -> int:
        return self.total if key is None else self.total - self._sizes.get(key, 0)

    def put(self, key: K, size: int | None, batch: Batch) -> None:
        """Change the size of a group; None removes it."""
        old_size = self._sizes.get(key)
        self._put(key, size)
        batch.on_undo(lambda: self._put(key, old_size))

    def _put(self, key: K, size: int | None) -> None:
        self.total += (size or 0) - self._sizes.pop(key, 0)
        if size is not None:
            self._sizes[key] = size
