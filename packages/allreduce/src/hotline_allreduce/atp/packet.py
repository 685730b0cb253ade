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

`AtpPacket` is for Python; the functions below it read and write fields in a buffer, for compiled code.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from foundation.protocol.rpc import Rpc
from hotline_agents.datagram_view import as_halfwords, word_at, write_word
from nativekit.bits import swap16
from nativekit.compile import compiled, int64

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
# Offsets: of workers and flags in octets, of the other fields in halfwords.
_WORKERS_AT, _FLAGS_AT = 4, 5
_BITMAP_AT = 0
_APP_AT, _SEQUENCE_AT, _CELL_AT, _VALUES_AT = 6 // 2, 8 // 2, 10 // 2, HEADER.size // 2
_KEY_AT = (OCTETS - TAIL.size) // 2
_LENGTH_AT = _KEY_AT + 4


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


@compiled
def write_head(
    rpc: Rpc, bitmap: int, workers: int, flags: int, app: int, sequence: int, cell: int, key: int, length: int
) -> None:
    """Write all fields but the values; `key` is from 0 to 2^63 - 1."""
    packet = as_halfwords(rpc)
    write_word(rpc, _BITMAP_AT, bitmap)
    packet.octets[_WORKERS_AT], packet.octets[_FLAGS_AT] = workers, flags
    packet.halfwords[_APP_AT], packet.halfwords[_SEQUENCE_AT] = swap16(app), swap16(sequence)
    packet.halfwords[_CELL_AT], packet.halfwords[_CELL_AT + 1] = swap16(cell), swap16(cell + CELLS)
    write_word(rpc, _KEY_AT, key >> 32)
    write_word(rpc, _KEY_AT + 2, key & 0xFFFFFFFF)
    write_word(rpc, _LENGTH_AT, length)


@compiled
def write_value(rpc: Rpc, i: int, word: int) -> None:
    write_word(rpc, _VALUES_AT + 2 * i, word)


@compiled
def value_of(rpc: Rpc, i: int) -> int:
    """Return the word of value `i` as an unsigned integer."""
    return word_at(rpc, _VALUES_AT + 2 * i)


@compiled
def bitmap_of(rpc: Rpc) -> int:
    return word_at(rpc, _BITMAP_AT)


@compiled
def workers_of(rpc: Rpc) -> int:
    return int64(as_halfwords(rpc).octets[_WORKERS_AT])


@compiled
def flags_of(rpc: Rpc) -> int:
    return int64(as_halfwords(rpc).octets[_FLAGS_AT])


@compiled
def app_of(rpc: Rpc) -> int:
    return swap16(as_halfwords(rpc).halfwords[_APP_AT])


@compiled
def sequence_of(rpc: Rpc) -> int:
    return swap16(as_halfwords(rpc).halfwords[_SEQUENCE_AT])


@compiled
def cell_of(rpc: Rpc) -> int:
    return swap16(as_halfwords(rpc).halfwords[_CELL_AT])


@compiled
def key_of(rpc: Rpc) -> int:
    return (word_at(rpc, _KEY_AT) & 0x7FFFFFFF) << 32 | word_at(rpc, _KEY_AT + 2)


@compiled
def length_of(rpc: Rpc) -> int:
    """Return the tensor's length, or the new cell of an acknowledgement."""
    return word_at(rpc, _LENGTH_AT)


assert VALUES * 4 + HEADER.size + TAIL.size == OCTETS
