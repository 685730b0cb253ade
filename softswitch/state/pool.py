"""Runs of words in a fixed region: members of groups, and replicas of packets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from softswitch.memory.words import halves


class RunPool:
    """Runs of words by key, each put behind the others; at the region's end all move to its beginning."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words
        self._runs: dict[int, tuple[int, int]] = {}
        self._end = 0
        self.held = 0
        """Words of all runs."""

    def put(self, key: int, values: list[int]) -> list[int]:
        """Replace the run of a key, for which there has to be room; gives all keys whose `word` is new."""
        self.remove(key)
        moved: list[int] = []
        if self._end + len(values) > len(self._words):
            moved = self._compact()
        self._words[self._end : self._end + len(values)] = values
        self._runs[key] = (self._end, len(values))
        self._end += len(values)
        self.held += len(values)
        return [*moved, key]

    def _compact(self) -> list[int]:
        """Move the runs together, the first one first, so that none is overwritten before it has moved.

        Gives the keys of all.
        """
        end = 0
        for key, (first, count) in sorted(self._runs.items(), key=lambda run: run[1]):
            self._words[end : end + count] = self._words[first : first + count].copy()
            self._runs[key] = (end, count)
            end += count
        self._end = end
        return list(self._runs)

    def length(self, key: int) -> int:
        """Words of a run; 0 if there is none."""
        return self._runs.get(key, (0, 0))[1]

    def word(self, key: int) -> int:
        """first << 32 | length of a run; 0 if there is none."""
        first, count = self._runs.get(key, (0, 0))
        return halves(first, count)

    def remove(self, key: int) -> None:
        """Give the words of a run back; harmless where there is none."""
        _, count = self._runs.pop(key, (0, 0))
        self.held -= count
