"""A packet of a dense vector, behind UDP: a chunk of it on its way to whoever adds, or back, or that it has
come.

Big-endian:

| offset | bytes | field | |
|---:|---:|---|---|
| 0 | 1 | kind | `ADDEND`, `RESULT` or `TAKEN` |
| 1 | 1 | form | of the values: 0 int32, 1 float32 (IEEE 754) |
| 2 | 1 | worker | from 0 on: whose addend it is, or whose result |
| 3 | 1 | workers | whose vectors are added up |
| 4 | 2 | job | where Hotline's RPC has it |
| 6 | 2 | size | values of a whole chunk; only the last of a vector, or of a part of it, has fewer |
| 8 | 4 | round | which all-reduce of the job, from 1 on |
| 12 | 4 | chunk | its number in what is sent |
| 16 | 4 each | values | as many as the length says |
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ADDEND, RESULT, TAKEN = 1, 2, 3
LEAST_SIZE, MOST_SIZE = 64, 360
"""Values of a whole chunk; the largest leaves room for IP and UDP in an MTU of 1,500."""
SIZE = 256
"""Of a chunk, unless a client is told another."""
WORKERS = 32
"""A bit each."""
HEADER = struct.Struct("!BBBBHHII")
VALUE_BYTES = 4


class Packet(NamedTuple):
    """One, as tests and readers have it."""

    kind: int
    is_float: int
    worker: int
    workers: int
    job: int
    size: int
    round: int
    chunk: int
    values: tuple[int, ...] = ()
    """uint32, whatever the form"""

    def build(self) -> bytes:
        """Its datagram."""
        return HEADER.pack(*self[:8]) + struct.pack(f"!{len(self.values)}I", *self.values)


def parse(datagram: bytes) -> Packet:
    """A datagram as `build` makes it; raises `struct.error` for one that is too short, or no whole values."""
    count = (len(datagram) - HEADER.size) // VALUE_BYTES
    values = struct.unpack(f"!{max(count, 0)}I", datagram[HEADER.size :])
    return Packet._make((*HEADER.unpack_from(datagram), values))
