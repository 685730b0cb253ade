"""A packet in its buffer, in host byte order and 2-byte units, as the values begin at byte 10."""

from __future__ import annotations

from typing import cast

import numba
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from hosts.switchml.packet import HEADER, KIND, OCTETS, SIZE, VALUES
from nativekit.bits import swap16
from nativekit.compile import compiled, int64, leaf
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values
from nativekit.records import Octets, checked

CHUNK = checked(
    np.dtype(
        {
            "names": ["octets", "halfwords"],
            "formats": [("u1", (HEADER.size,)), ("u2", (OCTETS // 2,))],
            "offsets": [0, 0],
            "itemsize": BUFFER_BYTES,
        }
    )
)
"""The same bytes, one by one and two by two."""
_FIRST = KIND << 4 | SIZE
_CHUNK_AT, _POOL_INDEX_AT, _EXPONENT_AT, _VALUES_AT = 2 // 2, 6 // 2, 8, HEADER.size // 2
_SET = 1 << 15
_numba: Module = numba


class Chunk:
    """A `CHUNK` record in a datagram's buffer."""

    octets: Octets
    halfwords: NDArray[np.uint16]


def _as_chunk_plain(rpc: Rpc) -> Chunk:
    record: np.record = cast(np.record, rpc)
    return cast(Chunk, record.view((np.record, CHUNK)))


@leaf(_as_chunk_plain)
def as_chunk(_typing: TypingContext, rpc: Kind) -> Generated:
    """Return a datagram's buffer as a `CHUNK` record."""
    chunk = _numba.from_dtype(CHUNK)

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        return builder.bitcast(values[0], context.get_value_type(chunk))

    return chunk(rpc), code


@compiled
def write_head(rpc: Rpc, job: int, chunk: int, slot: int, set_: int, exponent: int) -> None:
    """Write the header of a request, and the exponent, -128 to 127."""
    packet = as_chunk(rpc)
    packet.octets[0], packet.octets[1] = _FIRST, job & 0xFF
    packet.halfwords[_CHUNK_AT] = swap16(chunk >> 16 & 0xFFFF)
    packet.halfwords[_CHUNK_AT + 1] = swap16(chunk & 0xFFFF)
    packet.halfwords[_POOL_INDEX_AT] = swap16(slot | set_ * _SET)
    packet.octets[_EXPONENT_AT], packet.octets[_EXPONENT_AT + 1] = exponent & 0xFF, 0


@compiled
def write_value(rpc: Rpc, i: int, value: int) -> None:
    """Write value `i`, modulo 2^32."""
    packet, at = as_chunk(rpc), _VALUES_AT + 2 * i
    packet.halfwords[at], packet.halfwords[at + 1] = swap16(value >> 16 & 0xFFFF), swap16(value & 0xFFFF)


@compiled
def value_of(rpc: Rpc, i: int) -> int:
    """Return value `i` as a signed integer."""
    packet, at = as_chunk(rpc), _VALUES_AT + 2 * i
    word = swap16(packet.halfwords[at]) << 16 | swap16(packet.halfwords[at + 1])
    return int64(word - ((word & 1 << 31) << 1))


@compiled
def is_result(rpc: Rpc, length: int, job: int) -> bool:
    """Return whether a datagram is a result of all-reduce number `job`."""
    if length != OCTETS:
        return False
    packet = as_chunk(rpc)
    return bool(packet.octets[0] == _FIRST and packet.octets[1] == job & 0xFF)


@compiled
def chunk_of(rpc: Rpc) -> int:
    packet = as_chunk(rpc)
    return int64(swap16(packet.halfwords[_CHUNK_AT]) << 16 | swap16(packet.halfwords[_CHUNK_AT + 1]))


@compiled
def exponent_of(rpc: Rpc) -> int:
    """Return the largest exponent of all workers."""
    octet = int64(as_chunk(rpc).octets[_EXPONENT_AT])
    return octet - ((octet & 0x80) << 1)


@compiled
def missing_of(rpc: Rpc) -> int:
    """Return the number of workers whose values the result lacks."""
    return int64(as_chunk(rpc).octets[_EXPONENT_AT + 1])


assert VALUES * 4 + HEADER.size == OCTETS
