"""Generated logs as update logs in Parquet: [DDL]'s skew, with ranks that stay, drift or change at once.

At any time ranks are drawn as the built-in workload draws them; which key has a rank changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.errors import DataError, reason_of
from hosts.workload.generator import Shape, calibrate
from hosts.workload.trace import distinct_columns

Progress = Callable[[int, int], None]
"""Told what is done, and of how much."""
_STEPS_AT_ONCE = 100
_CHANGES_A_HALF_LIFE = 50


@dataclass(frozen=True, slots=True)
class Built:
    """A log that is to be made."""

    shape: Shape
    steps: int
    """Mini-batches of all workers together."""
    workers: int = 4
    half_life: float | None = None
    """Steps after which half of the ranks have another key; None: they never have."""
    shift_at: int | None = None
    """A step at which half of the hottest keys change places with cold ones; None: they never do."""
    seed: int = 1


def write_parts(built: Built, folder: Path, progress: Progress) -> list[Path]:
    """Parquet files with iteration, worker and key, in order; raises `DataError`."""
    parts = []
    for number, part in enumerate(_parts(built, progress)):
        parts.append(folder / f"built-{number}.parquet")
        try:
            part.write_parquet(parts[-1])
        except OSError as error:
            raise DataError(f"{parts[-1]}: cannot be written: {reason_of(error)}") from error
    return parts


def _parts(built: Built, progress: Progress) -> Iterator[pl.DataFrame]:
    law, draws = calibrate(built.shape)
    random = np.random.default_rng(built.seed)
    key_of_rank = random.permutation(built.shape.parameters).astype(np.uint32)
    block = max(1, round(built.half_life / _CHANGES_A_HALF_LIFE)) if built.half_life else _STEPS_AT_ONCE
    at = 0
    while at < built.steps:
        until = min(at + min(block, _STEPS_AT_ONCE), built.steps)
        if built.shift_at is not None and at < built.shift_at:
            until = min(until, built.shift_at)
        drawn = key_of_rank[law.ranks(random.random((until - at, draws)))]
        sizes, keys, _ = distinct_columns(drawn)
        step = np.repeat(np.arange(at, until), sizes)
        yield pl.DataFrame(
            {
                "iteration": (step // built.workers).astype(np.uint32),
                "worker": (step % built.workers + 1).astype(np.uint16),
                "key": keys.astype(np.uint64),
            }
        )
        if built.half_life:
            _exchange(key_of_rank, random.random(len(key_of_rank)) < _changed(until - at, built), random)
        if until == built.shift_at:
            hot = np.zeros(len(key_of_rank), np.bool_)
            hot[: built.shape.hot] = random.random(built.shape.hot) < 0.5
            cold = random.choice(np.arange(built.shape.hot, len(hot)), np.count_nonzero(hot), replace=False)
            key_of_rank[hot], key_of_rank[cold] = key_of_rank[cold], key_of_rank[hot]
        at = until
        progress(at, built.steps)


def _changed(steps: int, built: Built) -> float:
    """The part of the ranks that get another key in so many steps."""
    assert built.half_life is not None
    return 1 - float(2 ** (-steps / built.half_life))


def _exchange(key_of_rank: NDArray[np.uint32], which: NDArray[np.bool_], random: np.random.Generator) -> None:
    """Let these ranks have one another's keys."""
    key_of_rank[which] = random.permutation(key_of_rank[which])
