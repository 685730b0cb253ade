"""Data files as workloads: libsvm training sets, and users' access logs.

An access log is replayed: the same keys in the same mini-batches, with synthetic deltas. Integer keys of one
table are unchanged, so they hash to the same lanes and servers as in the application.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.dims import RowSettings
from foundation.logs.access.format_detection import open_log
from foundation.logs.access.formats.libsvm import LibsvmLog
from foundation.logs.access.log_files import expand
from foundation.logs.access.steps import KEY, Steps, read_steps
from foundation.logs.access.unique_keys import UNSCORABLE
from foundation.logs.libsvm_reader import read_samples
from foundation.protocol.rows import RowRange
from foundation.text import pluralize
from hosts.keys import KeySpace
from hosts.workload.trace import Samples, Trace, prefix_sums

Note = Callable[[str], None]

log = logging.getLogger(__name__)

ONE_VALUE_ROWS = RowSettings()
"""Rows of one value in all tables."""


def load(
    path: Path, workers: int, options: ReadOptions, note: Note = log.info, rows: RowSettings | None = None
) -> Trace:
    """Return the trace of a training set or log, whose keys name rows of the dims that `rows` says.

    Without `rows` they have one value, and a column of dims is refused. Raises `DataError`.
    """
    if rows is None:
        if options.columns.dim is not None:
            raise DataError(
                f"{path}: expected no column of dims here, got dim={options.columns.dim}: "
                "all rows of a log have one dim in a run, and one value in a map"
            )
        rows = ONE_VALUE_ROWS
    files = expand([path])
    if len(files) == 1 and isinstance(open_log(path, options), LibsvmLog):
        [dim] = rows.dims_of_tables(())
        trace = load_training_set(path, workers, options.batch)
        return replace(trace, space=replace(trace.space, ranges=(RowRange(0, dim),)))
    return load_log(path, workers, options, note, rows)


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
            f"{path}: expected at least {workers * samples_per_step} samples for "
            f"{pluralize(workers, 'mini-batch', 'mini-batches')}, got {len(labels)}"
        )
    if not indices:
        raise DataError(f"{path}: expected at least one feature, no sample has a feature")
    keys, position = np.unique(np.array(indices, dtype=np.uint64), return_inverse=True)
    if len(keys) == len(indices) > 1:
        raise DataError(
            f"{path}: all {len(keys):,} features are distinct, {UNSCORABLE}; expected features that several "
            "samples have"
        )
    length = np.array(lengths, dtype=np.uint32)
    entry_start = prefix_sums(length)
    x = np.array(values, dtype=np.float32)

    # The first sample of each mini-batch, worker by worker.
    order = np.arange(steps * workers).reshape(steps, workers).T.ravel() * samples_per_step
    batches = [slice(entry_start[first], entry_start[first + samples_per_step]) for first in order]
    parameters_of_batch = [np.unique(position[entries], return_inverse=True) for entries in batches]
    sample_order = (order[:, None] + np.arange(samples_per_step)).ravel()
    return Trace(
        name=path.name,
        workers=workers,
        steps=steps,
        space=KeySpace(len(keys), keys),
        key_start=prefix_sums([len(positions) for positions, _ in parameters_of_batch]),
        position=np.concatenate([positions for positions, _ in parameters_of_batch]).astype(np.uint32),
        samples=Samples(
            batch_start=prefix_sums([samples_per_step] * len(batches)),
            label=np.array(labels, dtype=np.uint8)[sample_order],
            length=length[sample_order],
            entry_start=prefix_sums([entries.stop - entries.start for entries in batches]),
            column=np.concatenate([column for _, column in parameters_of_batch]).astype(np.uint32),
            x=np.concatenate([x[entries] for entries in batches]),
        ),
    )


def load_log(
    path: Path, workers: int, options: ReadOptions, note: Note = log.info, rows: RowSettings = ONE_VALUE_ROWS
) -> Trace:
    """Return a trace of an access log, dealt to the workers in turn. Raises `DataError`."""
    with TemporaryDirectory() as scratch:
        steps = read_steps([path], options, Path(scratch), progress=lambda done, total: None)
        for sentence in steps.notes:
            note(sentence)
        return deal(_trace_of(steps, rows), workers, path)


def _trace_of(steps: Steps, rows: RowSettings) -> Trace:
    accesses, key_start = np.array(steps.accesses), np.array(steps.starts)
    if steps.has_pulls:
        # The accesses without their operations: a key is once in a step that pulls and pushes it.
        batches = [np.unique(accesses[start:end] & KEY) for start, end in pairwise(key_start.tolist())]
        accesses, key_start = np.concatenate(batches), prefix_sums([len(batch) for batch in batches])
    dims = rows.dims_of_keys(steps)
    if len(distinct_dims := np.unique(dims)) <= 1:
        space = KeySpace(len(steps.keys), steps.keys, (RowRange(0, int(distinct_dims[0])),))
    else:
        space, position_of = space_by_dim(dims)
        batches = [np.sort(position_of[accesses[start:end]]) for start, end in pairwise(key_start.tolist())]
        accesses = np.concatenate(batches)
    return Trace(
        name=steps.name, workers=1, steps=len(steps), space=space, key_start=key_start, position=accesses
    )


def space_by_dim(dims: NDArray[np.int64]) -> tuple[KeySpace, NDArray[np.uint32]]:
    """Return a key space with the rows of each dim one after the other, and the position of each row [n].

    Keys of several tables are hashes of what the log has, so that other keys are as good.
    """
    order = np.argsort(dims, kind="stable")
    position_of = np.empty(len(dims), np.uint32)
    position_of[order] = np.arange(len(dims), dtype=np.uint32)
    distinct, firsts = np.unique(dims[order], return_index=True)
    ranges = zip(firsts.tolist(), distinct.tolist(), strict=True)
    return KeySpace(len(dims), None, tuple(map(RowRange._make, ranges))), position_of


def deal(trace: Trace, workers: int, path: Path, note: Note = log.warning) -> Trace:
    """Return the trace with its mini-batches dealt to the workers in turn; `note` hears what is left out."""
    key_start, steps = trace.key_start, trace.steps // workers
    if not steps:
        raise DataError(
            f"{path}: expected at least {workers} mini-batches, one for each worker, got {trace.steps}"
        )
    if trace.steps % workers:
        omitted = pluralize(trace.steps % workers, "mini-batch is", "mini-batches are")
        note(f"{path}: the last {omitted} left out, because each worker gets equally many")
    # The mini-batches, worker by worker.
    order = np.arange(steps * workers).reshape(steps, workers).T.ravel()
    return Trace(
        name=trace.name,
        workers=workers,
        steps=steps,
        space=trace.space,
        key_start=prefix_sums(np.diff(key_start)[order]),
        position=np.concatenate([trace.position[key_start[b] : key_start[b + 1]] for b in order]),
    )
