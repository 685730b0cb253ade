"""Reader of libsvm training sets: `label index:value ...`, one sample a line; `#` begins a comment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from foundation.errors import DataError
from foundation.logs.access.block import BadRows
from foundation.logs.access.log_files import Stream, open_stream
from foundation.protocol.header import NO_KEY

LABELS = {"-1": -1, "0": 0, "1": 1, "+1": 1, "-1.0": -1, "0.0": 0, "1.0": 1, "+1.0": 1}
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_FORMAT_HINT = "the file was read as libsvm; an access log must be Parquet or delimited text"
Sample = tuple[int, list[int], list[float]]


def read_samples(path: Path, stream: Stream | None = None, bad: BadRows | None = None) -> Iterator[Sample]:
    """Yield label (0 or 1), indices and values of each line; bad lines go to `bad`, or raise `DataError`."""
    negative_label: int | None = None
    try:
        with nullcontext(stream) if stream is not None else open_stream(path) as source:
            for number, line in enumerate(source.lines("ascii"), 1):
                tokens = line.partition("#")[0].split()
                if not tokens:
                    continue
                if bad is not None:
                    bad.rows += 1
                try:
                    label, indices, values = _parse(tokens)
                    if label < 1:
                        if negative_label not in (None, label):
                            raise ValueError("labels 0 and -1 in one file; use 0/1 or -1/+1")
                        negative_label = label
                except ValueError as error:
                    if bad is None:
                        raise DataError(f"{path}, line {number}: {error}; {_FORMAT_HINT}") from None
                    bad.add(path, "line", number, str(error), "a libsvm sample")
                    continue
                yield max(label, 0), indices, values
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as libsvm: {error}") from error


def _parse(tokens: list[str]) -> Sample:
    if tokens[0] not in LABELS:
        raise ValueError(f"label {tokens[0]!r} is not binary (0/1 or -1/+1)")
    indices: list[int] = []
    values: list[float] = []
    for token in tokens[1:]:
        index, colon, value = token.partition(":")
        if not (colon and index.isdecimal()):
            raise ValueError(f"{token!r} is not index:value")
        indices.append(int(index))
        try:
            # Python alone would parse 1_0 as ten.
            values.append(float(value.replace("_", "no digit")))
        except ValueError:
            raise ValueError(f"{token!r}: {value!r} is no number") from None
        if not math.isfinite(values[-1]):
            raise ValueError(f"{token!r}: the value is not finite")
        if abs(values[-1]) > _MAX_FLOAT32:
            raise ValueError(
                f"{token!r}: the value is beyond 32-bit floats, which reach to {_MAX_FLOAT32:.4g}"
            )
        if indices[-1] >= NO_KEY:
            raise ValueError(f"{token!r}: expected an index below 2^64 - 1")
        if len(indices) > 1 and indices[-1] <= indices[-2]:
            raise ValueError(f"index {indices[-1]} after {indices[-2]}; indices must increase")
    return LABELS[tokens[0]], indices, values
