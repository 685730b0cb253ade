"""Somebody's own update log as the load: the same keys in the same mini-batches, with made-up deltas.

A log is Parquet or CSV with the columns iteration, worker, key; all rows of one iteration and worker are one
mini-batch. Keys stay what they are, so the lanes and shares they hash to are the real ones.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import polars as pl

from hosts.errors import WorkloadError
from hosts.keys import KeySpace
from hosts.wire.header import NO_KEY
from hosts.workload.trace import Trace

log = logging.getLogger(__name__)

_COLUMNS = {"iteration": pl.UInt64, "worker": pl.UInt64, "key": pl.UInt64}
_PARQUET_MAGIC = b"PAR1"


def load(path: Path, workers: int) -> Trace:
    """A trace of an update log: mini-batches in order of iteration, dealt to the workers in turn.

    The log's own workers need not be as many. What does not fill a last round is left out; raises
    `WorkloadError` when the log has fewer mini-batches than there are workers.
    """
    updates = _read(path)
    if updates.null_count().sum_horizontal().item():
        raise WorkloadError(f"{path}: a row lacks its iteration, worker or key")
    keys, position = np.unique(updates["key"].to_numpy(), return_inverse=True)
    if len(keys) and keys[-1] == NO_KEY:
        raise WorkloadError(f"{path}: key {NO_KEY} means 'no key' on the wire")
    sizes = updates.group_by("iteration", "worker", maintain_order=True).len()["len"].to_numpy()
    steps = len(sizes) // workers
    if not steps:
        raise WorkloadError(f"{path}: {len(sizes)} mini-batches (iteration, worker) for {workers} workers")
    if len(sizes) % workers:
        log.warning("%s: the last %d mini-batches are left out", path, len(sizes) % workers)

    start = np.append(0, np.cumsum(sizes, dtype=np.int64))
    order = np.arange(steps * workers).reshape(steps, workers).T.ravel()
    return Trace(
        name=path.name,
        workers=workers,
        steps=steps,
        space=KeySpace(len(keys), keys),
        key_start=np.append(0, np.cumsum(sizes[order], dtype=np.int64)),
        position=np.concatenate([position[start[b] : start[b + 1]] for b in order]).astype(np.uint32),
    )


def is_update_log(path: Path) -> bool:
    """Whether a data file is an update log rather than a libsvm training set; raises `WorkloadError`."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror or error}") from error
    return head.startswith(_PARQUET_MAGIC) or set(_COLUMNS) <= set(_header_names(head))


def _header_names(head: bytes) -> list[str]:
    first_line = head.splitlines()[0] if head else b""
    return [name.strip(' "') for name in first_line.decode("ascii", "replace").split(",")]


def _read(path: Path) -> pl.DataFrame:
    """Distinct (iteration, worker, key) in that order."""
    try:
        with path.open("rb") as file:
            is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        frame = pl.scan_parquet(path) if is_parquet else pl.scan_csv(path)
        missing = set(_COLUMNS) - set(frame.collect_schema().names())
        if missing:
            raise WorkloadError(f"{path}: lacks the column {', '.join(sorted(missing))}")
        columns = [pl.col(name).cast(type_) for name, type_ in _COLUMNS.items()]
        return frame.select(columns).unique().sort(*_COLUMNS).collect()
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        raise WorkloadError(f"{path}: is no update log: {str(error).splitlines()[0]}") from error
