"""Views of a datagram's buffer, for compiled code: as a record with a packet's fields, or in 2-byte units."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from nativekit.bits import swap16
from nativekit.compile import compiled, llvm_intrinsic
from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values
from nativekit.records import Octets, Record, check_field_names

if HAS_NUMBA:  # generators of LLVM IR alone use these
    import numba
    from llvmlite import ir

    _numba: Module = numba
R = TypeVar("R")


def view_as(_record: type[R], dtype: np.dtype[np.void]) -> Callable[[Rpc], R]:
    """Return a function that views a buffer, without a copy, as a record of this type."""

    def view_in_python(rpc: Rpc) -> R:
        return cast(R, cast(np.void, rpc).view((Record, dtype)))

    @llvm_intrinsic(view_in_python)
    def view(_typing: TypingContext, rpc: Kind) -> Generated:
        kind = _numba.from_dtype(dtype)

        def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
            return builder.bitcast(values[0], context.get_value_type(kind))

        return kind(rpc), code

    return view


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
"""The same bytes as octets and as halfwords in network order: some packets have words at any even byte."""


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
    return swap16(packet.halfwords[index]) << 16 | swap16(packet.halfwords[index + 1])


@compiled
def as_signed(word: int) -> int:
    return word - ((word & 1 << 31) << 1)  # minus 2^32 if the sign bit is set
