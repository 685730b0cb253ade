"""A log of accesses in the order of time, as arrays that lie on disk: memory does not grow with its updates.

An access is a number: which of the log's distinct keys, and in the topmost bit whether it is a pull. A step
is one mini-batch of one worker; its keys are distinct, and a worker pulls them before it pushes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.policies.compiling import entry_point, int64

Accesses = NDArray[np.uint32]
PULL = 1 << 31
"""Bit of an access that is a pull; all others are updates."""
KEY = PULL - 1
"""Bits that say which key."""
MOST_KEYS = PULL - 1
MOST_ACCESSES = 2**32 - 2
NEVER = 2**32 - 1
"""The next access of a key that has none."""
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Log:
    """A log, and where its scored part begins."""

    name: str
    accesses: Accesses
    """[n]"""
    starts: NDArray[np.int64]
    """[steps + 1]: first access of each step."""
    keys: NDArray[np.uint64]
    """[distinct]: the keys, ascending."""
    learnt: int
    """Steps of the first part, which is learnt from and not scored."""
    has_pulls: bool = False
    folder: Path | None = None
    """Where more arrays may be put; None: in memory."""

    @property
    def steps(self) -> int:
        """Mini-batches of all workers."""
        return len(self.starts) - 1

    @property
    def split(self) -> int:
        """The first access that is scored."""
        return int(self.starts[self.learnt])

    def spans(self, first: int, period: int | None) -> Iterator[tuple[int, int]]:
        """Ranges of whole steps from `first` on, each within a part of the log and a period, and not long."""
        cuts = {first, self.learnt, self.steps, *(range(0, self.steps, period) if period else ())}
        cuts |= set(np.searchsorted(self.starts, range(0, len(self.accesses), _CHUNK)).tolist())
        yield from pairwise(sorted(cut for cut in cuts if first <= cut <= self.steps))

    def chunks(self, begin: int, end: int) -> Iterator[Accesses]:
        """The accesses in this range, one part after the other."""
        for at in range(begin, end, _CHUNK):
            yield np.array(self.accesses[at : min(at + _CHUNK, end)])

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """[distinct]: accesses of each key in the part that is learnt from."""
        counts = np.zeros(len(self.keys), np.int64)
        for chunk in self.chunks(0, self.split):
            _count(chunk, counts)
        return counts

    @cached_property
    def following(self) -> NDArray[np.uint32]:
        """[n]: the next access of the same key, or NEVER. Filled from the end, chunk by chunk."""
        size = len(self.accesses)
        if self.folder is None:
            following: NDArray[np.uint32] = np.empty(size, np.uint32)
        else:
            following = np.memmap(self.folder / "following.u32", np.uint32, "w+", shape=(size,))
        latest = np.full(len(self.keys), NEVER, np.uint32)
        for at in reversed(range(0, size, _CHUNK)):
            _follow(np.array(self.accesses[at : at + _CHUNK]), latest, following[at : at + _CHUNK], at)
        return following


def log_of(batches: Iterable[Sequence[int]], learn: float = 0.5, name: str = "log") -> Log:
    """A log of updates, in memory, of the keys of each step."""
    steps = [np.asarray(batch, np.uint64) for batch in batches]
    keys, accesses = np.unique(np.concatenate(steps), return_inverse=True)
    starts = np.append(0, np.cumsum([len(step) for step in steps], dtype=np.int64))
    return Log(name, accesses.astype(np.uint32), starts, keys, part_of(len(steps), learn))


def part_of(steps: int, learn: float) -> int:
    """How many of the steps are learnt from."""
    return min(round(steps * learn), steps - 1)


@entry_point
def _count(accesses: Any, counts: Any) -> None:
    for access in accesses:
        counts[int64(access) & KEY] += 1


@entry_point
def _follow(accesses: Any, latest: Any, following: Any, begin: int) -> None:
    for at in range(len(accesses) - 1, -1, -1):
        key = int64(accesses[at]) & KEY
        following[at] = latest[key]
        latest[key] = begin + at
