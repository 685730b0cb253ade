"""Runs of words in a fixed region: members of groups, and replicas of packets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class RunPool:
    """Runs of words by key, first fit; when a hole is too small they all move together."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words
        self._runs: dict[int, tuple[int, int]] = {}
        self._end = 0

    def fits(self, key: int, length: int) -> bool:
        """Whether a run of this length can stand in place of the one of that key."""
        others = sum(count for k, (_, count) in self._runs.items() if k != key)
        return others + length <= len(self._words)

    def put(self, key: int, values: list[int]) -> bool:
        """Replace the run of a key; True if others have moved, so that their places have to be read anew."""
        self._runs.pop(key, None)
        moved = self._end + len(values) > len(self._words)
        if moved:
            self._compact()
        self._words[self._end : self._end + len(values)] = values
        self._runs[key] = (self._end, len(values))
        self._end += len(values)
        return moved

    def _compact(self) -> None:
        end = 0
        for key, (first, count) in sorted(self._runs.items(), key=lambda run: run[1]):
            self._words[end : end + count] = self._words[first : first + count].copy()
            self._runs[key] = (end, count)
            end += count
        self._end = end

    def word(self, key: int) -> int:
        """first << 32 | length of a run; 0 if there is none."""
        first, count = self._runs.get(key, (0, 0))
        return first << 32 | count

    def keys(self) -> list[int]:
        """Keys of all runs."""
        return list(self._runs)

    def remove(self, key: int) -> None:
        """Give the words of a run back."""
        self._runs.pop(key, None)
