"""Data files as workloads: libsvm training sets, and users' update logs.

An update log is replayed: the same keys in the same mini-batches, with synthetic deltas. It is Parquet or CSV
with the columns iteration, worker, key; all rows of one iteration and worker are one mini-batch. Keys are
unchanged, so their lanes and shares are the real ones.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from foundation.errors import DataError
from foundation.logs.libsvm import read_samples
from foundation.logs.update_log import UNREADABLE, UPDATES, UpdateLog, first_line, is_update_log
from foundation.protocol.header import NO_KEY
from foundation.text import pluralize
from hosts.keys import KeySpace
from hosts.workload.trace import Samples, Trace

log = logging.getLogger(__name__)


def load(path: Path, workers: int, samples_per_step: int) -> Trace:
    """Return the trace of an update log, or of mini-batches of a training set. Raises `DataError`."""
    if is_update_log(path):
        return load_update_log(path, workers)
    return load_training_set(path, workers, samples_per_step)


def load_training_set(path: Path, workers: int, samples_per_step: int) -> Trace:
    """Return a training set's mini-batches in file order, dealt to workers in turn. Raises `DataError`."""
    # An incomplete last round of mini-batches is left out.
    labels: list[int] = []
    lengths: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for label, sample_indices, sample_values in read_samples(path):
        labels.append(label)
        lengths.append(len(sample_indices))
        indices += sample_indices
        values += sample_values
    steps = len(labels) // (workers * samples_per_step)
    if not steps:
        raise DataError(
            f"{path}: {pluralize(len(labels), 'sample')}; "
            f"{pluralize(workers, 'mini-batch takes', 'mini-batches take')} {workers * samples_per_step}"
        )
    if not indices:
        raise DataError(f"{path}: no sample has a feature")
    keys, position = np.unique(np.array(indices, dtype=np.uint64), return_inverse=True)
    length = np.array(lengths, dtype=np.uint32)
    start = _starts(length)
    x = np.array(values, dtype=np.float32)

    # The first sample of each mini-batch, worker by worker.
    order = [
        (step * workers + worker) * samples_per_step for worker in range(workers) for step in range(steps)
    ]
    batches = [slice(start[first], start[first + samples_per_step]) for first in order]
    distinct = [np.unique(position[entries], return_inverse=True) for entries in batches]
    picked = (np.array(order)[:, None] + np.arange(samples_per_step)).ravel()
    return Trace(
        name=path.name,
        workers=workers,
        steps=steps,
        space=KeySpace(len(keys), keys),
        key_start=_starts([len(positions) for positions, _ in distinct]),
        position=np.concatenate([positions for positions, _ in distinct]).astype(np.uint32),
        samples=Samples(
            batch_start=_starts([samples_per_step] * len(batches)),
            label=np.array(labels, dtype=np.uint8)[picked],
            length=length[picked],
            entry_start=_starts([entries.stop - entries.start for entries in batches]),
            column=np.concatenate([column for _, column in distinct]).astype(np.uint32),
            x=np.concatenate([x[entries] for entries in batches]),
        ),
    )


def load_update_log(path: Path, workers: int) -> Trace:
    """Return a trace of an update log: mini-batches in order of iteration, dealt to the workers in turn.

    The log may have another number of workers. An incomplete last round is left out. Raise `DataError` if the
    log has fewer mini-batches than there are workers.
    """
    updates = _read_updates(path)
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

    start = _starts(sizes)
    order = np.arange(steps * workers).reshape(steps, workers).T.ravel()
    return Trace(
        name=path.name,
        workers=workers,
        steps=steps,
        space=KeySpace(len(keys), keys),
        key_start=_starts(sizes[order]),
        position=np.concatenate([position[start[b] : start[b + 1]] for b in order]).astype(np.uint32),
    )


def _read_updates(path: Path) -> pl.DataFrame:
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
        raise DataError(f"{path}: expected a row for each update, got none")
    if rows.null_count().sum_horizontal().item():
        raise DataError(updates.fault(UPDATES) or f"{path}: a row lacks its iteration, worker or key")
    return rows


def _starts(sizes: ArrayLike) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(sizes, dtype=np.int64))
