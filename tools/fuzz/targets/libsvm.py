"""A libsvm training set: all samples are read correctly, or an error is raised."""

from __future__ import annotations

import re
from collections.abc import Hashable
from itertools import pairwise

import numpy as np

from foundation.logs.libsvm_reader import read_samples
from foundation.protocol.header import NO_KEY
from tools.fuzz.target import Target, scratch

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
"""Finite numbers as strtod in libsvm reads them, hexadecimal ones left out."""


def run(data: bytes) -> Hashable:
    path = scratch() / "data.libsvm"
    path.write_bytes(data)
    samples = list(read_samples(path))
    for label, indices, values in samples:
        assert label in (0, 1) and len(indices) == len(values), "a bad label, or an index without a value"
        assert all(a < b for a, b in pairwise([*indices, NO_KEY])), "indices do not ascend"
        assert np.isfinite(np.array(values, np.float32)).all(), "a value is not a finite 32-bit float"
    # Universal newlines: a lone \r ends a line too.
    lines = [line.partition("#")[0].split() for line in re.split(r"\r\n|\r|\n", data.decode("ascii"))]
    pairs = [pair for line in lines if line for pair in line[1:]]
    assert len(pairs) == sum(len(indices) for _, indices, _ in samples), "a pair is lost"
    assert all(NUMBER.fullmatch(pair.partition(":")[2]) for pair in pairs), "libsvm rejects a number"
    return min(len(samples), 3), min(len(pairs), 3)


def seeds() -> list[bytes]:
    return [
        b"1 1:1 2:1\n0 3:0.5 18446744073709551614:-1e3\n",
        b"+1 1:.5 # a comment\n\n-1 2:2.\r\n# only that\n-1\n",
        b"1.0 7:3.4e38\n0.0\t8:+1E-45\n",
    ]


TOKENS = (
    b"+1 ", b"-1 ", b"0 ", b"1.0 ", b"0.0 ", b"#", b":", b" 1:", b"\n", b"\r\n", b"nan", b"inf", b"1e39",
    b"3.5e38", b"18446744073709551615", b"_", b"\x1c", b"0x1p3", b"\xc2\xb2",
)  # fmt: skip
TARGET = Target("libsvm", run, ("src/foundation/logs/libsvm_reader.py",), seeds, TOKENS)
