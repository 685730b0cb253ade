"""Byte order and bit counts of words, for which numba has no functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from nativekit.compile import int64, llvm_intrinsic
from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Context, Generated, Kind, Signature, TypingContext, Value, Values

if HAS_NUMBA:  # generators of LLVM IR alone use these
    from llvmlite import ir
    from numba import types

T = TypeVar("T")


def _make_swap(bits: int, result_name: str) -> Callable[[TypingContext, Kind], Generated]:
    def generate(_typing: TypingContext, word: Kind) -> Generated:
        kind, result = getattr(types, f"uint{bits}"), getattr(types, result_name)

        def code(context: Context, builder: ir.IRBuilder, signature: Signature, values: Values) -> Value:
            value = context.cast(builder, values[0], signature.args[0], kind)
            return context.cast(builder, builder.bswap(value), kind, result)

        return result(word), code

    return generate


def _make_plain_swap(octets: int, convert: Callable[[int], T]) -> Callable[[int | np.integer], T]:
    mask = (1 << 8 * octets) - 1
    return lambda word: convert(int.from_bytes((int(word) & mask).to_bytes(octets, "little"), "big"))


# Reverse the bytes of a word of 2, 4 or 8 bytes; the result is an int64, or a uint64 for 8 bytes.
swap16 = llvm_intrinsic(_make_plain_swap(2, int64))(_make_swap(16, "int64"))
swap32 = llvm_intrinsic(_make_plain_swap(4, int64))(_make_swap(32, "int64"))
swap64 = llvm_intrinsic(_make_plain_swap(8, np.uint64))(_make_swap(64, "uint64"))


def _popcount_plain(word: int) -> int:
    return int64(int(word).bit_count())


@llvm_intrinsic(_popcount_plain)
def popcount(_typing: TypingContext, _word: Kind) -> Generated:
    """Return the number of bits set in a non-negative int64."""

    def code(_context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        return builder.ctpop(values[0])

    return types.int64(types.int64), code
