"""ATP's packet in UDP: a header, 62 values, and then the tensor's number and length.

As in in-ATP/ATP at ddca27f (`common/packet.h`, `p4src/includes/headers.p4`), which has no UDP. Big-endian:

| offset | bytes | field | |
|---:|---:|---|---|
| 0 | 4 | bitmap | a bit for each worker whose values the packet contains; 1 in an acknowledgement |
| 4 | 1 | workers | number of workers of the job |
| 5 | 1 | flags | `ACK` to `OVERFLOW` below |
| 6 | 2 | app | the job, from 1 on |
| 8 | 2 | sequence | number of the packet in its tensor, from 1 on |
| 10 | 2 | cell | the aggregator: the hash of job and place in the window |
| 12 | 2 | second cell | `cell` plus `CELLS`, for the second half of the values |
| 14 | 248 | values | signed integers, or floats with the flag `OVERFLOW` |
| 262 | 8 | key | number of the tensor |
| 270 | 4 | length | number of values of the tensor; in an acknowledgement with `COLLISION` the new cell |

The published `key` is in host byte order, here it is in network order, so that a switch can compare it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

VALUES = 62  # number of values of a packet
CELLS = 20_000
"""Cells of 62 values in the switch. The published program has 40,000 of 31, of which a packet takes two."""
WORKERS = 32  # maximum number; each has a bit of a word
ACK, COLLISION, RESEND, ECN, SECOND_PASS, OVERFLOW = 1, 2, 4, 8, 0x10, 0x80
"""Flags. A worker's packet with `OVERFLOW` has floats, which the server adds only with `RESEND`, too. An
acknowledgement with `OVERFLOW` requests floats, or has their sums if it has `RESEND`, too."""
SERVER_SHIFT = 5  # of a server's number (key mod number of servers), which takes two bits of the flags
SERVERS = 4  # maximum number
MAX_SEQUENCE = 0xFFFF
HEADER, TAIL = struct.Struct("!IBBHHHH"), struct.Struct("!QI")
_BODY = struct.Struct(f"!{VALUES}I")
OCTETS = HEADER.size + _BODY.size + TAIL.size
NO_VALUES = (0,) * VALUES


class AtpPacket(NamedTuple):
    bitmap: int
    workers: int
    app: int
    sequence: int
    cell: int
    values: tuple[int, ...] = NO_VALUES  # uint32[VALUES]
    key: int = 0
    length: int = 0
    flags: int = 0

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    def build(self) -> bytes:
        cells = self.cell, self.cell + CELLS
        head = HEADER.pack(self.bitmap, self.workers, self.flags, self.app, self.sequence, *cells)
        return head + _BODY.pack(*self.values) + TAIL.pack(self.key, self.length)


def parse(datagram: bytes) -> AtpPacket:
    bitmap, workers, flags, app, sequence, cell, _ = HEADER.unpack_from(datagram)
    values = _BODY.unpack(datagram[HEADER.size : -TAIL.size])
    key, length = TAIL.unpack(datagram[-TAIL.size :])
    return AtpPacket(bitmap, workers, app, sequence, cell, values, key, length, flags)
