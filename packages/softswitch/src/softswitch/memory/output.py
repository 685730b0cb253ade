"""Output records of the packet function: frames, waiting packets, digests and log records, one after another.

    uint32 kind, uint32 length, data, padding to a multiple of 8

The kind of a frame is its port; that of a packet between ingress and egress is `WAITING` (see
`memory.waiting`). That of a digest is `DIGEST` + its position in the program, that of a log record `LOG` +
the position of its text. The data of digests and log records are values: a word with the number of words that
follow, negated for a signed value, then these words, least significant first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softswitch.memory.words import WORD_BYTES

HEAD_FIELDS = ("kind", "length")
HEAD_FIELD_BYTES = 4
HEAD = np.dtype([(name, "<u4") for name in HEAD_FIELDS])
HEAD_BYTES = HEAD.itemsize
ALIGNMENT = 8
DIGEST = 1 << 31
LOG = 1 << 30
"""Kinds from here on are notices to the control plane."""
WAITING = 1 << 29
"""Kinds below are frames."""


def record_bytes(length: int) -> int:
    return HEAD_BYTES + (length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def record_head(kind: int, length: int) -> bytes:
    return np.array([(kind, length)], HEAD).tobytes()


def read_head(record: memoryview | bytes) -> tuple[int, int]:
    kind, length = np.frombuffer(record, HEAD, 1)[0].tolist()
    return kind, length


def read_records(memory: memoryview, count: int) -> Iterator[tuple[int, bytes]]:
    for _ in range(count):
        kind, length = read_head(memory)
        yield kind, bytes(memory[HEAD_BYTES : HEAD_BYTES + length])
        memory = memory[record_bytes(length) :]


def read_values(data: bytes) -> Iterator[int]:
    offset = 0
    while offset < len(data):
        start = offset + WORD_BYTES
        count = int.from_bytes(data[offset:start], "little", signed=True)
        offset = start + WORD_BYTES * abs(count)
        yield int.from_bytes(data[start:offset], "little", signed=count < 0)
