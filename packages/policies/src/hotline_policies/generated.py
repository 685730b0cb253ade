"""Generated update logs in Parquet: with Pan et al.'s skew, or the tables of a DLRM on Criteo's clicks.

Ranks are drawn as the built-in workloads draw them. With Pan et al.'s skew they stay fixed, drift, or shift
once: drift and shifts exchange the keys of the ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.dims import RowSettings
from foundation.logs.access.steps import Progress
from foundation.logs.parts import Parts
from hosts.workload.criteo import CriteoTables
from hosts.workload.generator import R1, R2, Shape, calibrate
from hosts.workload.trace import distinct_positions
from hotline_policies.settings import GeneratedLog

_NAME, _SCHEMA = "built", pl.Schema({"iteration": pl.UInt32, "worker": pl.UInt16, "key": pl.UInt64})
_TABLES_SCHEMA = pl.Schema([*_SCHEMA.items(), ("table", pl.UInt8()), ("dim", pl.UInt8())])
_STEPS_PER_PART = 100
SHAPES: dict[str, Shape | None] = {"r1": R1, "r2": R2, "criteo": None}
"""Shape of each built-in log, as in `LogSpec`."""
_EXCHANGES_PER_HALF_LIFE = 50
_SHIFTED_SHARE = 0.5  # share of the hottest keys that a shift exchanges


@dataclass(frozen=True, slots=True)
class LogSpec:
    shape: Shape | None
    """Size and skew of one table; None means the tables of a DLRM on Criteo's clicks."""
    steps: int  # mini-batches of all workers, which take turns
    workers: int = 4
    half_life: float | None = None
    """Steps after which half of the ranks have another key; None disables drift."""
    shift_at: int | None = None
    """Step at which half of the hottest keys change places with cold keys; None disables the shift."""
    seed: int = 1

    @property
    def title(self) -> str:
        shape = "tables of a DLRM on Criteo's clicks" if self.shape is None else self.shape.name
        title = f"{shape}, generated"
        if self.half_life:
            title += f", half-life {self.half_life:,g} steps"
        if self.shift_at is not None:
            title += f", half of the hot keys exchanged at step {self.shift_at:,}"
        return title

    def read_options(self, rows: RowSettings) -> ReadOptions:
        """Return how the files are read: their dims are those of `rows`, or else of the column dim."""
        if self.shape is not None:
            return ReadOptions()
        return ReadOptions(AccessColumns(table="table", dim=None if rows.has_dims else "dim"))


def log_spec_of(log: GeneratedLog, files: int) -> LogSpec | None:
    """Return the log to generate, or None if there are files to read; raise `DataError` for both or none."""
    if bool(files) == bool(log.built_in):
        raise DataError(f"expected files or built_in, and not both; got {files} files, {log.built_in!r}")
    if log.built_in is None:
        return None
    shift_at = 3 * log.steps // 4 if log.shift else None
    return LogSpec(SHAPES[log.built_in], log.steps, half_life=log.half_life, shift_at=shift_at)


def write_parts(spec: LogSpec, folder: Path, progress: Progress) -> list[Path]:
    """Write Parquet files, and return their paths in order; raises `DataError`.

    They have the columns iteration, worker, key, and with the tables of a DLRM also table and dim.
    """
    generate, schema = (_of_one_table, _SCHEMA) if spec.shape is not None else (_of_criteo, _TABLES_SCHEMA)
    files, parts = [], Parts(folder, _NAME, schema)
    for number, columns in enumerate(generate(spec, progress)):
        parts.write(columns)
        files.append(folder / f"{_NAME}-{number}.parquet")
    return files


def _of_criteo(spec: LogSpec, progress: Progress) -> Iterator[dict[str, NDArray[np.integer]]]:
    random = np.random.default_rng(spec.seed)
    tables = CriteoTables(R1.keys_per_step, random)
    dim_of_table = np.array([each.dim for each in tables.ranges])
    for start in range(0, spec.steps, _STEPS_PER_PART):
        end = min(start + _STEPS_PER_PART, spec.steps)
        uniform = random.random((end - start, tables.samples * tables.features_per_sample))
        sizes, keys = distinct_positions(tables.positions(uniform))
        table = np.searchsorted([each.first for each in tables.ranges], keys, side="right") - 1
        yield {**_steps(spec, start, sizes), "key": keys, "table": table + 1, "dim": dim_of_table[table]}
        progress(end, spec.steps)


def _steps(spec: LogSpec, start: int, sizes: NDArray[np.int64]) -> dict[str, NDArray[np.integer]]:
    """Return iteration and worker of each access, given the numbers of keys of the steps from `start` on."""
    step = np.repeat(np.arange(start, start + len(sizes)), sizes)
    return {"iteration": step // spec.workers, "worker": step % spec.workers + 1}


def _of_one_table(spec: LogSpec, progress: Progress) -> Iterator[dict[str, NDArray[np.integer]]]:
    assert spec.shape is not None
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
        sizes, keys = distinct_positions(drawn_keys)
        yield {**_steps(spec, start, sizes), "key": keys}
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
