"""SwitchML's packet in UDP: its header with a pool index, two exponents, and 64 or 256 values.

As in p4lang/p4app-switchML at b5c74a0 (`headers.p4`, `dpdk_worker_thread_utils.inc`). Big-endian:

| offset | bytes | field | |
|---:|---:|---|---|
| 0 | 1 | kind, unused, size | 4, 1 and 3 bits; kind 1; size 1: 256 bytes of values, 3: 1,024 |
| 1 | 1 | job | number of the all-reduce, modulo 256 |
| 2 | 4 | chunk | `tsi`: number of the packet, copied to the result. Only the stale-chunk filter reads it |
| 6 | 2 | pool index | the set in the first bit, then the slot |
| 8 | 2 | exponents | the *next* chunk's, signed; then 0, in a result the number of missing workers |
| 10 | 256 or 1,024 | values | |
| behind them | 4 | cut bits | of design `exact` only |

The workers of p4app-switchML write `tsi` in host byte order, from 0 in each all-reduce. Here it is in
network order and is not reset between all-reduces, so that the stale-chunk filter (not part of SwitchML) can
compare it. The pool index is not reset in either.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from foundation.protocol.rpc import Rpc
from hotline_agents.datagram_view import as_halfwords, as_signed, word_at, write_word
from nativekit.bits import swap16
from nativekit.compile import compiled, int64

VALUES, MAX_VALUES = 64, 256  # numbers of values of a packet of each size
KIND, SIZE, MAX_SIZE = 1, 1, 3
KIND_SHIFT, _SIZE_MASK = 4, 7
VALUE_BYTES = 4
SLOTS = 8192  # number of slots in each of the two sets of the switch's pool
WORKERS = 32  # maximum number; each has a bit of a word
HEADER = struct.Struct("!BBIHbb")
HEADER_BYTES = HEADER.size
OCTETS = HEADER_BYTES + VALUE_BYTES * VALUES
MAX_OCTETS = HEADER_BYTES + VALUE_BYTES * MAX_VALUES
SET_SHIFT = 15
CUT = struct.Struct("!I")
NO_VALUES = (0,) * VALUES
# Offsets: of the exponent in octets, of the other fields in halfwords.
_CHUNK_AT, _POOL_INDEX_AT, _EXPONENT_AT, _VALUES_AT = 2 // 2, 6 // 2, 8, HEADER.size // 2


class SwitchMLPacket(NamedTuple):
    chunk: int
    slot: int
    set: int
    values: tuple[int, ...] = NO_VALUES  # uint32[VALUES or MAX_VALUES], modulo 2^32
    exponents: tuple[int, int] = (0, 0)  # -128 to 127
    job: int = 0
    size: int = SIZE
    cut: int | None = None  # uint32: the cut bits of design `exact`; None in SwitchML's packets

    def build(self) -> bytes:
        pool_index = self.set << SET_SHIFT | self.slot
        head = HEADER.pack(KIND << KIND_SHIFT | self.size, self.job, self.chunk, pool_index, *self.exponents)
        tail = b"" if self.cut is None else CUT.pack(self.cut)
        return head + struct.pack(f"!{len(self.values)}I", *self.values) + tail


def parse(datagram: bytes) -> SwitchMLPacket:
    first_octet, job, chunk, pool_index, exponent, unused_exponent = HEADER.unpack_from(datagram)
    size = first_octet & _SIZE_MASK
    count = MAX_VALUES if size == MAX_SIZE else VALUES
    values = struct.unpack_from(f"!{count}I", datagram, HEADER_BYTES)
    slot, set_ = pool_index & (1 << SET_SHIFT) - 1, pool_index >> SET_SHIFT
    exponents, rest = (exponent, unused_exponent), datagram[HEADER_BYTES + VALUE_BYTES * count :]
    [cut] = CUT.unpack(rest) if rest else (None,)
    return SwitchMLPacket(chunk, slot, set_, values, exponents, job, size, cut)


@compiled
def _first_octet(words: int) -> int:
    return KIND << KIND_SHIFT | (MAX_SIZE if words == MAX_VALUES else SIZE)


@compiled
def write_head(rpc: Rpc, words: int, job: int, chunk: int, slot: int, set_: int, exponent: int) -> None:
    """Write a request's header with the number of its words, and the exponent, -128 to 127."""
    packet = as_halfwords(rpc)
    packet.octets[0], packet.octets[1] = _first_octet(words), job & 0xFF
    write_word(rpc, _CHUNK_AT, chunk)
    packet.halfwords[_POOL_INDEX_AT] = swap16(slot | set_ << SET_SHIFT)
    packet.octets[_EXPONENT_AT], packet.octets[_EXPONENT_AT + 1] = exponent & 0xFF, 0


@compiled
def write_value(rpc: Rpc, i: int, value: int) -> None:
    write_word(rpc, _VALUES_AT + 2 * i, value)


@compiled
def value_of(rpc: Rpc, i: int) -> int:
    return as_signed(word_at(rpc, _VALUES_AT + 2 * i))


@compiled
def is_result(rpc: Rpc, words: int, job: int) -> bool:
    packet = as_halfwords(rpc)
    return bool(packet.octets[0] == _first_octet(words) and packet.octets[1] == job & 0xFF)


@compiled
def chunk_of(rpc: Rpc) -> int:
    return word_at(rpc, _CHUNK_AT)


@compiled
def exponent_of(rpc: Rpc) -> int:
    octet = int64(as_halfwords(rpc).octets[_EXPONENT_AT])
    return octet - ((octet & 0x80) << 1)


@compiled
def missing_of(rpc: Rpc) -> int:
    """Return the number of workers whose values the result lacks."""
    return int64(as_halfwords(rpc).octets[_EXPONENT_AT + 1])
