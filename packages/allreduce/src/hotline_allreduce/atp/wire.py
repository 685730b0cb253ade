"""Accessors for the fields of an ATP packet in its buffer, in network order."""

from __future__ import annotations

from foundation.protocol.rpc import Rpc
from hosts.datagram_view import as_halfwords, word_at, write_word
from hotline_allreduce.atp.packet import CELLS, HEADER, OCTETS, TAIL, VALUES
from nativekit.bits import swap16
from nativekit.compile import compiled, int64

# Offsets: of workers and flags in octets, of the other fields in halfwords.
_WORKERS_AT, _FLAGS_AT = 4, 5
_BITMAP_AT = 0
_APP_AT, _SEQUENCE_AT, _CELL_AT, _VALUES_AT = 6 // 2, 8 // 2, 10 // 2, HEADER.size // 2
_KEY_AT = (OCTETS - TAIL.size) // 2
_LENGTH_AT = _KEY_AT + 4


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
    return int64(swap16(as_halfwords(rpc).halfwords[_APP_AT]))


@compiled
def sequence_of(rpc: Rpc) -> int:
    return int64(swap16(as_halfwords(rpc).halfwords[_SEQUENCE_AT]))


@compiled
def cell_of(rpc: Rpc) -> int:
    return int64(swap16(as_halfwords(rpc).halfwords[_CELL_AT]))


@compiled
def key_of(rpc: Rpc) -> int:
    return int64((word_at(rpc, _KEY_AT) & 0x7FFFFFFF) << 32 | word_at(rpc, _KEY_AT + 2))


@compiled
def length_of(rpc: Rpc) -> int:
    """Return the tensor's length, or the new cell of an acknowledgement."""
    return word_at(rpc, _LENGTH_AT)


assert VALUES * 4 + HEADER.size + TAIL.size == OCTETS
