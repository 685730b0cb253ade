"""libsvm files as workloads: `label index:value index:value ...`, one sample a line, `#` begins a comment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.words import counted
from hosts.keys import KeySpace
from hosts.workload.trace import Samples, Trace
from logs.errors import DataError
from protocol.header import NO_KEY

_LABELS = {"-1": -1, "0": 0, "1": 1, "+1": 1, "-1.0": -1, "0.0": 0, "1.0": 1, "+1.0": 1}
_LARGEST = float(np.finfo(np.float32).max)
_TAKEN = "read as libsvm; an update log is Parquet, or CSV with iteration,worker,key in its first line"
Sample = tuple[int, list[int], list[float]]


def read_samples(path: Path) -> Iterator[Sample]:
    """Label (0 or 1), indices and values of each line; raises `DataError` with the line's number."""
    negative: int | None = None
    try:
        with path.open(encoding="ascii") as lines:
            for number, line in enumerate(lines, 1):
                tokens = line.partition("#")[0].split()
                if not tokens:
                    continue
                try:
                    label, indices, values = _parse(tokens)
                    if label < 1:
                        if negative not in (None, label):
                            raise ValueError("labels 0 and -1 in one file; use 0/1 or -1/+1")
                        negative = label
                except ValueError as error:
                    raise DataError(f"{path}, line {number}: {error}; {_TAKEN}") from None
                yield max(label, 0), indices, values
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as libsvm: {error}") from error


def _parse(tokens: list[str]) -> Sample:
    if tokens[0] not in _LABELS:
        raise ValueError(f"label {tokens[0]!r} is not binary (0/1 or -1/+1)")
    indices: list[int] = []
    values: list[float] = []
    for token in tokens[1:]:
        index, colon, value = token.partition(":")
        if not (colon and index.isdecimal()):
            raise ValueError(f"{token!r} is not index:value")
        indices.append(int(index))
        try:
            values.append(float(value))
        except ValueError:
            raise ValueError(f"{token!r}: {value!r} is no number") from None
        if not math.isfinite(values[-1]):
            raise ValueError(f"{token!r}: the value is not finite")
        if abs(values[-1]) > _LARGEST:
            raise ValueError(f"{token!r}: the value is beyond 32-bit floats, which reach to {_LARGEST:.4g}")
        if indices[-1] >= NO_KEY:
            raise ValueError(f"{token!r}: the index is not below 2^64 - 1")
        if len(indices) > 1 and indices[-1] <= indices[-2]:
            raise ValueError(f"index {indices[-1]} behind {indices[-2]}; indices must rise")
    return _LABELS[tokens[0]], indices, values


def load(path: Path, workers: int, samples_per_step: int) -> Trace:
    """A trace of a training set: mini-batches in file order, dealt to the workers in turn.

    What does not fill a last round of mini-batches is left out; raises `DataError` when not one is full.
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
            f"{path}: {counted(len(labels), 'sample')}; "
            f"{counted(workers, 'mini-batch takes', 'mini-batches take')} {workers * samples_per_step}"
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
