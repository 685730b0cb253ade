"""A user's update log as the workload: the same keys in the same mini-batches, with synthetic deltas.

A log is Parquet or CSV with the columns iteration, worker, key; all rows of one iteration and worker are one
mini-batch. Keys are unchanged, so their lanes and shares are the real ones.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import polars as pl

from foundation.logs.errors import DataError
from foundation.logs.update_log import UNREADABLE, UPDATES, UpdateLog, first_line
from foundation.protocol.header import NO_KEY
from foundation.text import pluralize
from hosts.keys import KeySpace
from hosts.workload.trace import Trace

log = logging.getLogger(__name__)


def load(path: Path, workers: int) -> Trace:
    """Return a trace of an update log: mini-batches in order of iteration, dealt to the workers in turn.

    The log may have another number of workers. An incomplete last round is left out. Raise `DataError` if the
    log has fewer mini-batches than there are workers.
    """
    updates = _read(path)
    keys, position = np.unique(updates["key"].to_numpy(), return_inverse=True)
    if len(keys) and keys[-1] == NO_KEY:
        raise DataError(f"{path}: key {NO_KEY} means 'no key' on the wire")
    sizes = updates.group_by("iteration", "worker", maintain_order=True).len()["len"].to_numpy()
    steps = len(sizes) // workers
    if not steps:
        found = pluralize(len(sizes), "mini-batch", "mini-batches")
        raise DataError(f"{path}: {found} (iteration, worker) for {pluralize(workers, 'worker')}")
    if len(sizes) % workers:
        rest = pluralize(len(sizes) % workers, "mini-batch is", "mini-batches are")
        log.warning("%s: the last %s left out", path, rest)

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


def _read(path: Path) -> pl.DataFrame:
    """Return the distinct (iteration, worker, key) in that order."""
    updates = UpdateLog.open(path)
    missing = [name for name in UPDATES if name not in updates.names]
    if missing:
        raise DataError(
            f"{path}: lacks the column {', '.join(missing)}; an update log has {', '.join(UPDATES)}"
        )
    try:
        rows = updates.scan(UPDATES).unique().sort(*UPDATES).collect()
    except UNREADABLE as error:
        raise DataError(updates.fault(UPDATES) or f"{path}: cannot be read: {first_line(error)}") from error
    if rows.is_empty():
        raise DataError(f"{path}: has columns and no row; each row is one update")
    if rows.null_count().sum_horizontal().item():
        raise DataError(updates.fault(UPDATES) or f"{path}: a row lacks its iteration, worker or key")
    return rows
