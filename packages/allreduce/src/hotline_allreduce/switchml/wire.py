"""Access to the fields of a SwitchML packet in its buffer, in network order."""

from __future__ import annotations

from foundation.protocol.rpc import Rpc
from hosts.datagram_view import as_halfwords, as_signed, word_at, write_word
from hotline_allreduce.switchml.packet import HEADER, KIND, KIND_SHIFT, OCTETS, SET_SHIFT, SIZE, VALUES
from nativekit.bits import swap16
from nativekit.compile import compiled, int64

_FIRST_OCTET = KIND << KIND_SHIFT | SIZE
# Offsets: of the exponent in octets, of the other fields in halfwords.
_CHUNK_AT, _POOL_INDEX_AT, _EXPONENT_AT, _VALUES_AT = 2 // 2, 6 // 2, 8, HEADER.size // 2


@compiled
def write_head(rpc: Rpc, job: int, chunk: int, slot: int, set_: int, exponent: int) -> None:
    """Write the header of a request, and the exponent, -128 to 127."""
    packet = as_halfwords(rpc)
    packet.octets[0], packet.octets[1] = _FIRST_OCTET, job & 0xFF
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
def is_result(rpc: Rpc, length: int, job: int) -> bool:
    if length != OCTETS:
        return False
    packet = as_halfwords(rpc)
    return bool(packet.octets[0] == _FIRST_OCTET and packet.octets[1] == job & 0xFF)


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


assert VALUES * 4 + HEADER.size == OCTETS
