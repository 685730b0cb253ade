"""Generated update logs in Parquet, with Pan et al.'s skew; ranks of keys stay fixed, drift, or shift once.

Ranks are drawn as the built-in workload draws them; drift and shifts exchange the keys of the ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.access.steps import Progress
from foundation.logs.parts import Parts
from hosts.workload.generator import Shape, calibrate
from hosts.workload.trace import distinct_columns

_NAME, _SCHEMA = "built", pl.Schema({"iteration": pl.UInt32, "worker": pl.UInt16, "key": pl.UInt64})
_STEPS_PER_PART = 100
_EXCHANGES_PER_HALF_LIFE = 50
_SHIFTED_SHARE = 0.5  # share of the hottest keys that a shift exchanges


@dataclass(frozen=True, slots=True)
class LogSpec:
    shape: Shape
    steps: int  # mini-batches of all workers, which take turns
    workers: int = 4
    half_life: float | None = None
    """Steps after which half of the ranks have another key; None disables drift."""
    shift_at: int | None = None
    """Step at which half of the hottest keys change places with cold keys; None disables the shift."""
    seed: int = 1


def write_parts(spec: LogSpec, folder: Path, progress: Progress) -> list[Path]:
    """Write Parquet files (iteration, worker, key), and return their paths in order; raises `DataError`."""
    files, parts = [], Parts(folder, _NAME, _SCHEMA)
    for number, columns in enumerate(_generate_parts(spec, progress)):
        parts.write(columns)
        files.append(folder / f"{_NAME}-{number}.parquet")
    return files


def _generate_parts(spec: LogSpec, progress: Progress) -> Iterator[dict[str, NDArray[np.integer]]]:
    # A mini-batch draws `draws` ranks, of which equal ones are one key.
    law, draws = calibrate(spec.shape)
    random = np.random.default_rng(spec.seed)
    key_of_rank = random.permutation(spec.shape.parameters).astype(np.uint32)
    block_steps = (
        max(1, round(spec.half_life / _EXCHANGES_PER_HALF_LIFE)) if spec.half_life else _STEPS_PER_PART
    )
    start = 0
    while start < spec.steps:
        end = min(start + min(block_steps, _STEPS_PER_PART), spec.steps)
        if spec.shift_at is not None and start < spec.shift_at:
            end = min(end, spec.shift_at)
        drawn_keys = key_of_rank[law.ranks(random.random((end - start, draws)))]
        sizes, keys, _ = distinct_columns(drawn_keys)
        step = np.repeat(np.arange(start, end), sizes)
        yield {"iteration": step // spec.workers, "worker": step % spec.workers + 1, "key": keys}
        if spec.half_life:
            exchanged_share = 1 - 2 ** ((start - end) / spec.half_life)
            is_exchanged = random.random(len(key_of_rank)) < exchanged_share
            key_of_rank[is_exchanged] = random.permutation(key_of_rank[is_exchanged])
        if end == spec.shift_at:
            is_moved_rank = np.zeros(len(key_of_rank), np.bool_)
            is_moved_rank[: spec.shape.hot] = random.random(spec.shape.hot) < _SHIFTED_SHARE
            cold_ranks = random.choice(
                np.arange(spec.shape.hot, len(is_moved_rank)), np.count_nonzero(is_moved_rank), replace=False
            )
            moved_keys = key_of_rank[is_moved_rank]
            key_of_rank[is_moved_rank], key_of_rank[cold_ranks] = key_of_rank[cold_ranks], moved_keys
        start = end
        progress(start, spec.steps)
