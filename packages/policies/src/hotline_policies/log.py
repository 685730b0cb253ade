"""A log for the replay of policies: an access log or training set with a training part, and its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.errors import DataError
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.steps import KEY as KEY
from foundation.logs.access.steps import PULL as PULL
from foundation.logs.access.steps import Accesses as Accesses
from foundation.logs.access.steps import Progress, Steps, read_steps
from foundation.logs.time_split import TRAIN_SHARE, training_length
from nativekit.compile import int64
from nativekit.records import Ints, Words

NO_NEXT_ACCESS = 2**32 - 1
_CHUNK = 1 << 18  # accesses read at once


@dataclass(frozen=True)
class PolicyLog(Steps):
    training_steps: int
    folder: Path | None = None
    """Folder for derived arrays; None keeps them in memory."""

    @property
    def steps(self) -> int:
        return len(self.starts) - 1

    @property
    def training_accesses(self) -> int:
        """Number of accesses in the training part, which precede the scored accesses."""
        return int(self.starts[self.training_steps])

    def spans(self, first_step: int, period: int | None) -> Iterator[tuple[int, int]]:
        """Yield (first, end) of consecutive ranges of steps from `first_step` on."""
        # No range crosses the start of the scored part or the end of a period, nor is much longer than a
        # chunk.
        boundaries = {
            first_step,
            self.training_steps,
            self.steps,
            *(range(0, self.steps, period) if period else ()),
        }
        boundaries |= set(np.searchsorted(self.starts, range(0, len(self.accesses), _CHUNK)).tolist())
        yield from pairwise(sorted(step for step in boundaries if first_step <= step <= self.steps))

    def chunks(self, first_access: int, end_access: int) -> Iterator[Accesses]:
        for start in range(first_access, end_access, _CHUNK):
            yield np.array(self.accesses[start : min(start + _CHUNK, end_access)])

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Accesses of each key in the training part: [distinct]."""
        return self._count_training_part(_count)

    @cached_property
    def update_counts(self) -> NDArray[np.int64]:
        """Updates of each key in the training part, without its pulls: [distinct]."""
        return self._count_training_part(count_updates)

    def _count_training_part(self, count: Callable[[Accesses, Ints], None]) -> NDArray[np.int64]:
        counts = np.zeros(len(self.keys), np.int64)
        for chunk in self.chunks(0, self.training_accesses):
            count(chunk, counts)
        return counts

    @cached_property
    def next_access(self) -> NDArray[np.uint32]:
        """Index of the next access of the same key after each access, or NO_NEXT_ACCESS: [n]."""
        size = len(self.accesses)
        if self.folder is None:
            next_access: NDArray[np.uint32] = np.empty(size, np.uint32)
        else:
            next_access = np.memmap(self.folder / "next_access.u32", np.uint32, "w+", shape=(size,))
        next_index_of_key = np.full(len(self.keys), NO_NEXT_ACCESS, np.uint32)
        for start in reversed(range(0, size, _CHUNK)):
            _link_accesses(
                np.array(self.accesses[start : start + _CHUNK]),
                next_index_of_key,
                next_access[start : start + _CHUNK],
                start,
            )
        return next_access


def make_log(batches: Iterable[Sequence[int]], train_share: float = TRAIN_SHARE) -> PolicyLog:
    """Make a log in memory from the updated keys of each step; the first `train_share` of the steps train."""
    steps = [np.asarray(batch, np.uint64) for batch in batches]
    keys, accesses = np.unique(np.concatenate(steps), return_inverse=True)
    starts = np.append(0, np.cumsum([len(step) for step in steps], dtype=np.int64))
    return PolicyLog(
        "log", accesses.astype(np.uint32), starts, keys, has_pulls=False, tables=(),
        table_of=np.zeros(len(keys), np.uint16), notes=(),
        training_steps=training_length(len(steps), train_share),
    )  # fmt: skip


def prepare(
    files: Sequence[Path], folder: Path, train_share: float, options: ReadOptions, progress: Progress,
    name: str | None = None,
) -> PolicyLog:  # fmt: skip
    """Convert logs of any format, or training sets, to a log on disk; raise `DataError`."""
    steps = read_steps(files, options, folder, progress)
    if len(steps) < 2:
        raise DataError(f"{steps.name}: has one mini-batch; expected at least 2 (--batch sets their size)")
    steps = replace(steps, name=name or steps.name)
    return PolicyLog(**vars(steps), training_steps=training_length(len(steps), train_share), folder=folder)


@entry_point
def _count(accesses: Accesses, counts: Ints) -> None:
    for access in accesses:
        counts[int64(access) & KEY] += 1


@entry_point
def count_updates(accesses: Accesses, counts: Ints) -> None:
    for access in accesses:
        counts[int64(access) & KEY] += int64(access) < PULL  # 1 for an update: only a pull has the bit PULL


@entry_point
def _link_accesses(accesses: Accesses, next_index_of_key: Words, next_access: Words, begin: int) -> None:
    for i in range(len(accesses) - 1, -1, -1):
        key = int64(accesses[i]) & KEY
        next_access[i] = next_index_of_key[key]
        next_index_of_key[key] = begin + i
