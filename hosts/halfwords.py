"""A datagram in its buffer in 2-byte units, for packets whose words begin at any even byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from hosts.datagram_view import view_as
from nativekit.bits import swap16
from nativekit.compile import compiled, int64
from nativekit.records import Octets, check_field_names

HALFWORDS = check_field_names(
    np.dtype(
        {
            "names": ["octets", "halfwords"],
            "formats": [("u1", (BUFFER_BYTES,)), ("u2", (BUFFER_BYTES // 2,))],
            "offsets": [0, 0],
            "itemsize": BUFFER_BYTES,
        }
    )
)
"""Two views of the same bytes: octets, and halfwords in network order."""


class Halfwords:
    octets: Octets
    halfwords: NDArray[np.uint16]


as_halfwords = view_as(Halfwords, HALFWORDS)


@compiled
def write_word(rpc: Rpc, index: int, word: int) -> None:  # `index` counts halfwords, here and below
    packet = as_halfwords(rpc)
    packet.halfwords[index], packet.halfwords[index + 1] = swap16(word >> 16 & 0xFFFF), swap16(word & 0xFFFF)


@compiled
def word_at(rpc: Rpc, index: int) -> int:
    packet = as_halfwords(rpc)
    return int64(swap16(packet.halfwords[index]) << 16 | swap16(packet.halfwords[index + 1]))


@compiled
def as_signed(word: int) -> int:
    return int64(word - ((word & 1 << 31) << 1))  # minus 2^32 if the sign bit is set
