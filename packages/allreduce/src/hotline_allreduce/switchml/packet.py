"""SwitchML's packet in UDP: its header with a pool index, two exponents and 64 values.

As in p4lang/p4app-switchML at b5c74a0 (`headers.p4`, `dpdk_worker_thread_utils.inc`). Big-endian:

| offset | bytes | field | |
|---:|---:|---|---|
| 0 | 1 | kind, unused, size | 4, 1 and 3 bits; kind 1, size 1: 256 bytes of values |
| 1 | 1 | job | number of the all-reduce, modulo 256 |
| 2 | 4 | chunk | `tsi`: number of the packet, copied to the result. Only the stale-chunk filter reads it |
| 6 | 2 | pool index | the set in the first bit, then the slot |
| 8 | 2 | exponents | the *next* chunk's, signed; then 0, in a result the number of missing workers |
| 10 | 256 | values | |

The workers of p4app-switchML write `tsi` in host byte order, from 0 in each all-reduce. Here it is in
network order and is not reset between all-reduces, so that the stale-chunk filter (not part of SwitchML) can
compare it. The pool index is not reset in either.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

VALUES = 64  # number of values of a packet
KIND, SIZE = 1, 1
KIND_SHIFT, _SIZE_MASK = 4, 7
SLOTS = 8192  # number of slots in each of the two sets of the switch's pool
WORKERS = 32  # maximum number; each has a bit of a word
HEADER = struct.Struct("!BBIHbb")
OCTETS = HEADER.size + 4 * VALUES
SET_SHIFT = 15
_BODY = struct.Struct(f"!{VALUES}I")
NO_VALUES = (0,) * VALUES


class SwitchMLPacket(NamedTuple):
    chunk: int
    slot: int
    set: int
    values: tuple[int, ...] = NO_VALUES  # uint32[VALUES], modulo 2^32
    exponents: tuple[int, int] = (0, 0)  # -128 to 127
    job: int = 0
    size: int = SIZE

    def build(self) -> bytes:
        pool_index = self.set << SET_SHIFT | self.slot
        head = HEADER.pack(KIND << KIND_SHIFT | self.size, self.job, self.chunk, pool_index, *self.exponents)
        return head + _BODY.pack(*self.values)


def parse(datagram: bytes) -> SwitchMLPacket:
    first_octet, job, chunk, pool_index, exponent, unused_exponent = HEADER.unpack_from(datagram)
    values = _BODY.unpack(datagram[HEADER.size :])
    slot, set_ = pool_index & (1 << SET_SHIFT) - 1, pool_index >> SET_SHIFT
    exponents, size = (exponent, unused_exponent), first_octet & _SIZE_MASK
    return SwitchMLPacket(chunk, slot, set_, values, exponents, job, size)
