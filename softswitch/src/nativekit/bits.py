"""Words in network order: what numba has no word for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from nativekit.compile import leaf


def _reverse(bits: int, result: Any) -> Any:
    kind = getattr(types, f"uint{bits}")

    def generate(_typing: Any, word: Any) -> Any:
        def code(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
            value = context.cast(builder, values[0], signature.args[0], kind)
            return context.cast(builder, builder.bswap(value), kind, result)

        return result(word), code

    return generate


def _reverse_plain(octets: int, make: Callable[[int], Any]) -> Callable[[Any], Any]:
    mask = (1 << 8 * octets) - 1
    return lambda word: make(int.from_bytes((int(word) & mask).to_bytes(octets, "little"), "big"))


swap16 = leaf(_reverse_plain(2, np.int64))(_reverse(16, types.int64))
swap32 = leaf(_reverse_plain(4, np.int64))(_reverse(32, types.int64))
swap64 = leaf(_reverse_plain(8, np.uint64))(_reverse(64, types.uint64))


@leaf(lambda word: np.int64(int(word).bit_count()))
def popcount(_typing: Any, word: Any) -> Any:
    """Bits that are set in a word, which is not negative."""

    def code(_context: Any, builder: ir.IRBuilder, _signature: Any, values: Any) -> Any:
        return builder.ctpop(values[0])

    return types.int64(types.int64), code
