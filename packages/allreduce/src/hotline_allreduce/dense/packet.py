"""A packet of a dense vector in UDP: a chunk to be added, a chunk of the sum, or an acknowledgement.

Big-endian:

| offset | bytes | field | |
|---:|---:|---|---|
| 0 | 1 | kind | `ADDEND`, `RESULT` or `ACK` |
| 1 | 1 | form | of the values: 0 int32, 1 float32 (IEEE 754) |
| 2 | 1 | worker | from 0 on: the source of the addend, or the destination of the result |
| 3 | 1 | workers | number of workers whose vectors are added up |
| 4 | 2 | job | number of the job, at the same offset as in Hotline's RPC |
| 6 | 2 | size | values of a full chunk; only the last chunk of a vector, or of a part of it, has fewer |
| 8 | 4 | round | number of the all-reduce of the job, from 1 on |
| 12 | 4 | chunk | number of the chunk |
| 16 | 4 each | values | their number follows from the length of the datagram |
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ADDEND, RESULT, ACK = 1, 2, 3
MIN_SIZE, MAX_SIZE = 64, 360
"""Values of a full chunk; the largest leaves room for IP and UDP in an MTU of 1,500 bytes."""
SIZE = 256  # default number of values of a full chunk
MAX_WORKERS = 32  # each has a bit of a word
HEADER = struct.Struct("!BBBBHHII")
VALUE_BYTES = 4


class DensePacket(NamedTuple):  # the header's fields in their order, then the values
    kind: int
    is_float: int  # the header's `form`
    worker: int
    workers: int
    job: int
    size: int
    round: int
    chunk: int
    values: tuple[int, ...] = ()  # uint32 words, of either form

    def build(self) -> bytes:
        return HEADER.pack(*self[:-1]) + struct.pack(f"!{len(self.values)}I", *self.values)


def parse(datagram: bytes) -> DensePacket:
    count = (len(datagram) - HEADER.size) // VALUE_BYTES
    values = struct.unpack(f"!{max(count, 0)}I", datagram[HEADER.size :])
    return DensePacket._make((*HEADER.unpack_from(datagram), values))
