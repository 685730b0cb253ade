"""libsvm training sets as workloads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.logs.errors import DataError
from foundation.logs.libsvm import read_samples
from foundation.text import pluralize
from hosts.keys import KeySpace
from hosts.workload.trace import Samples, Trace


def load(path: Path, workers: int, samples_per_step: int) -> Trace:
    """Return a trace of a training set: mini-batches in file order, dealt to the workers in turn.

    An incomplete last round of mini-batches is left out. Raise `DataError` if none is full.
    """
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
    start = np.append(0, np.cumsum(length, dtype=np.int64))
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


def _starts(sizes: list[int]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(sizes, dtype=np.int64))
