"""Runs of words in a fixed region of the shared memory: members of groups, and replicas of packets."""

from __future__ import annotations

from softswitch.memory.words import pack_halves
from softswitch.state.memory import Memory


class RunPool:
    """Runs of words by key. New runs are appended; when the region is full, all runs are compacted."""

    def __init__(self, memory: Memory, first: int, size: int) -> None:
        self._memory = memory
        self._first, self._size = first, size
        self._runs: dict[int, tuple[int, int]] = {}
        self._end = 0
        self.used = 0  # words of all runs

    def put(self, key: int, values: list[int]) -> list[int]:
        """With the lock held, replace a key's run, which must fit; return all keys whose `word` changed."""
        self.remove(key)
        moved_keys: list[int] = []
        if self._end + len(values) > self._size:
            moved_keys = self._compact()
        self._memory.store(self._first + self._end, values)
        self._runs[key] = (self._end, len(values))
        self._end += len(values)
        self.used += len(values)
        self._memory.on_undo(lambda: self._take_back(key))
        return [*moved_keys, key]

    def _compact(self) -> list[int]:
        """Move runs to close gaps, in order of position so that none overwrites another; return all keys."""
        old_runs, old_end = dict(self._runs), self._end
        self._memory.on_undo(lambda: self._restore(old_runs, old_end))
        new_end = 0
        for key, (first, count) in sorted(self._runs.items(), key=lambda run: run[1]):
            run = self._memory.words[self._first + first : self._first + first + count].copy()
            self._memory.store(self._first + new_end, run)
            self._runs[key] = (new_end, count)
            new_end += count
        self._end = new_end
        return list(self._runs)

    def length(self, key: int) -> int:
        return self._runs.get(key, (0, 0))[1]

    def word(self, key: int) -> int:
        """Return first << 32 | length of a run; 0 if there is none."""
        first, count = self._runs.get(key, (0, 0))
        return pack_halves(first, count)

    def remove(self, key: int) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            self.used -= run[1]
            self._memory.on_undo(lambda: self._bring_back(key, run))

    def _take_back(self, key: int) -> None:
        """Undo the last `put`."""
        self._end, count = self._runs.pop(key)
        self.used -= count

    def _restore(self, runs: dict[int, tuple[int, int]], end: int) -> None:
        self._runs, self._end = runs, end

    def _bring_back(self, key: int, run: tuple[int, int]) -> None:
        self._runs[key] = run
        self.used += run[1]
