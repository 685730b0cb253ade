"""A trace: the mini-batches of all workers, as a directory of .npy files that processes map.

A trace has the distinct parameters of each (worker, step) in CSR form, and, if there is a model to train, the
samples as indices into them. Every arm of an experiment replays the same trace.

`trace.json` has the length and the CRC-32 of each file, and the CRC-32 of its own other fields.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.checksums import crc32_of
from foundation.errors import DataError, reason_of
from foundation.logs.parts import write_text
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace

_META = "trace.json"
_CHECKSUM = "crc32"  # of the other fields of `trace.json`


@dataclass(frozen=True, slots=True)
class Samples:
    """Labelled samples in CSR form; B = workers * steps mini-batches."""

    batch_start: NDArray[np.int64]  # [B + 1]: first sample of each mini-batch
    label: NDArray[np.uint8]  # [samples], 0 or 1
    length: NDArray[np.uint32]  # [samples]: number of features of each
    entry_start: NDArray[np.int64]  # [B + 1]: first feature of each mini-batch
    column: NDArray[np.unsignedinteger]
    """[features]: index into the mini-batch's distinct parameters."""
    x: NDArray[np.float32] | None  # [features]: the feature's value; None if all are 1 (click data)


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """One mini-batch; without samples if it comes from an access log."""

    positions: NDArray[np.int64]  # [n]: its distinct parameters, as positions in the key space
    label: NDArray[np.uint8] | None = None
    sample: NDArray[np.int64] | None = None  # [features]: the sample that each feature belongs to
    column: NDArray[np.unsignedinteger] | None = None
    x: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    workers: int
    steps: int
    space: KeySpace
    key_start: NDArray[np.int64]
    """[workers * steps + 1]: first lane of each mini-batch in `position`, worker by worker."""
    position: NDArray[np.uint32]  # [lanes]: position in the key space; a lane is a mini-batch's parameter
    samples: Samples | None = None
    profile_steps: int = 0
    """Steps of each worker, the first ones, that the hot set is chosen from. They are not repeated, so that
    the hot set is measured on what follows."""

    @property
    def largest_batch(self) -> int:
        return int(np.diff(self.key_start).max(initial=0))

    @property
    def lanes(self) -> int:
        return len(self.position)

    def batch(self, worker: int, step: int) -> MiniBatch:
        """Return the mini-batch of a worker (1-based); after the last step, step `profile_steps` follows."""
        if step >= self.steps:
            step = self.profile_steps + (step - self.steps) % (self.steps - self.profile_steps)
        b = (worker - 1) * self.steps + step
        positions = self.position[self.key_start[b] : self.key_start[b + 1]].astype(np.int64)
        if self.samples is None:
            return MiniBatch(positions)
        samples = self.samples
        batch = slice(samples.batch_start[b], samples.batch_start[b + 1])
        entries = slice(samples.entry_start[b], samples.entry_start[b + 1])
        label = samples.label[batch]
        sample = np.repeat(np.arange(len(label)), samples.length[batch])
        x = None if samples.x is None else samples.x[entries]
        return MiniBatch(positions, label, sample, samples.column[entries], x)

    def compact(self) -> Trace:
        """Return the trace with a key space of only the parameters that it uses; their keys are unchanged."""
        used_positions, position = np.unique(self.position, return_inverse=True)
        space = self.space.restrict(used_positions)
        return replace(self, space=space, position=position.astype(np.uint32))

    def save(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            # Without this file the other ones are no trace.
            (directory / _META).unlink(missing_ok=True)
            files = {f"{name}.npy": column for name, column in self._columns().items()}
            for name, column in files.items():
                np.save(directory / name, column)
            meta = {**self._meta(), "files": {name: _describe_file(directory / name) for name in files}}
            checked_meta = {**meta, _CHECKSUM: _checksum_of_meta(meta)}
            write_text(directory / _META, json.dumps(checked_meta, indent=1) + "\n")
        except OSError as error:
            raise DataError(f"{directory}: cannot write the trace: {reason_of(error)}") from error

    def _columns(self) -> dict[str, NDArray[np.generic]]:
        columns: dict[str, NDArray[np.generic]] = {"key_start": self.key_start, "position": self.position}
        if self.space.sparse is not None:
            columns["keys"] = self.space.sparse
        return columns if self.samples is None else {**columns, **_columns_of(self.samples)}

    def _meta(self) -> dict[str, object]:
        return {
            "name": self.name,
            "workers": self.workers,
            "steps": self.steps,
            "profile_steps": self.profile_steps,
            "parameters": self.space.size,
            "sparse": self.space.sparse is not None,
            "rows": [list(each) for each in self.space.ranges],
            "samples": [] if self.samples is None else list(_columns_of(self.samples)),
        }

    @staticmethod
    def load(directory: Path) -> Trace:
        """Map a trace that `save` has written; raise `DataError` if a file is missing or damaged."""
        try:
            meta = _read_meta(directory)
            for name, expected in meta["files"].items():
                if (found := _describe_file(directory / name)) != expected:
                    raise ValueError(f"{name} is damaged: expected {expected}, got {found}")
            return Trace(
                name=meta["name"],
                workers=meta["workers"],
                steps=meta["steps"],
                space=KeySpace(
                    meta["parameters"],
                    _map_column(directory, "keys") if meta["sparse"] else None,
                    tuple(RowRange(*each) for each in meta["rows"]),
                ),
                key_start=_map_column(directory, "key_start"),
                position=_map_column(directory, "position"),
                samples=_load_samples(directory, meta["samples"]),
                profile_steps=meta["profile_steps"],
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{directory}: cannot be read as a trace: {error}") from error


def _load_samples(directory: Path, names: list[str]) -> Samples | None:
    columns = {name: _map_column(directory, name) for name in names}
    return Samples(x=columns.pop("x", None), **columns) if columns else None


def _columns_of(samples: Samples) -> dict[str, NDArray[np.generic]]:
    columns = {field.name: getattr(samples, field.name) for field in fields(samples)}
    return {name: column for name, column in columns.items() if column is not None}


def _read_meta(directory: Path) -> dict[str, Any]:
    try:
        meta = json.loads((directory / _META).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_META} is damaged: {error}") from error
    if not isinstance(meta, dict) or meta.pop(_CHECKSUM, None) != _checksum_of_meta(meta):
        raise ValueError(f"{_META} is damaged: its fields do not have the CRC-32 that it states")
    return meta


def _checksum_of_meta(meta: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(meta).encode())


def _describe_file(file: Path) -> dict[str, int]:
    return {"bytes": file.stat().st_size, "crc32": crc32_of(file)}


def _map_column(directory: Path, name: str) -> NDArray[Any]:  # of the type that the file has
    return np.asarray(np.load(directory / f"{name}.npy", mmap_mode="r"))


def prefix_sums(counts: Sequence[int] | NDArray[np.integer | np.bool_]) -> NDArray[np.int64]:
    """Return the sums of the first 0, 1, ... n counts: [n + 1]."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, dtype=np.int64, out=sums[1:])
    return sums


def distinct_columns(
    positions: NDArray[np.integer],
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the distinct parameters of many equally large mini-batches at once.

    `positions` [batches, draws] -> the number of distinct ones in each [batches]; these parameters, sorted in
    each mini-batch and concatenated; and for each draw the index of its parameter [batches, draws].
    """
    batches, draws = positions.shape
    bits = max(draws - 1, 1).bit_length()
    # Sorting (position, draw) pairs as single integers groups equal positions, and keeps the draw of each.
    # Pairs of the built-in workload fit into 32 bits, and are sorted in half the time.
    is_short = bits + int(positions.max(initial=0)).bit_length() <= 32
    dtype: type[np.unsignedinteger[Any]] = np.uint32 if is_short else np.uint64
    pairs: NDArray[np.unsignedinteger[Any]] = positions.astype(dtype)
    pairs = pairs << bits | np.arange(draws, dtype=dtype)
    pairs.sort(axis=1)
    values = (pairs >> bits).astype(np.uint32)
    is_first = np.ones((batches, draws), dtype=np.bool_)
    is_first[:, 1:] = values[:, 1:] != values[:, :-1]
    indices = np.cumsum(is_first, axis=1, dtype=np.uint32) - np.uint32(1)
    column = np.empty((batches, draws), dtype=np.uint32)
    np.put_along_axis(column, (pairs & (1 << bits) - 1).astype(np.int64), indices, axis=1)
    return is_first.sum(axis=1), values[is_first], column


def distinct_positions(positions: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the first two results of `distinct_columns`, in a third of the time."""
    values = np.sort(positions.astype(np.uint32), axis=1)
    is_first = np.ones(values.shape, dtype=np.bool_)
    is_first[:, 1:] = values[:, 1:] != values[:, :-1]
    return is_first.sum(axis=1), values[is_first]
