"""Copy and add rows of cells from and to network order, four values at a time.

Numba's own loops handle a value at a time. A row of more than one value has a multiple of four.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import int64, llvm_intrinsic
from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values

_WORD_BYTES, _LANES = 4, 4
if HAS_NUMBA:  # generators of LLVM IR alone use these
    from llvmlite import ir
    from numba.core import cgutils, types

    _cgutils: Module = cgutils  # for type checkers, which do not know all names in it
    _types: Module = types
    _WORD, _ADDRESS = ir.IntType(32), ir.IntType(64)
    _VECTOR = ir.VectorType(_WORD, _LANES)
_SWAP = f"llvm.bswap.v{_LANES}i32"


def _words_at(address: int, n: int) -> NDArray[np.uint32]:
    return np.ctypeslib.as_array((ctypes.c_uint32 * int(n)).from_address(int(address)))


def _copy_swapped_plain(target: int, source: int, n: int) -> None:
    _words_at(target, n)[:] = _words_at(source, n).byteswap()


def _add_swapped_plain(target: int, source: int, n: int) -> int:
    values, deltas = _words_at(target, n), _words_at(source, n).byteswap()
    sums = values + deltas
    overflow = (values ^ sums) & (deltas ^ sums)
    values[:] = sums
    return int64(np.bitwise_or.reduce(overflow))


def _vector_at(builder: ir.IRBuilder, address: Value, offset: Value) -> Value:
    return builder.inttoptr(builder.add(address, offset), _VECTOR.as_pointer())


def _swap_words(builder: ir.IRBuilder, vector: Value) -> Value:
    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    return builder.call(builder.module.declare_intrinsic(_SWAP, (), kind), [vector])


def _for_each_vector(builder: ir.IRBuilder, n: Value, body: Callable[[Value], None]) -> None:
    """Emit code for each offset in bytes of four of `n` words."""
    octets = builder.mul(n, _ADDRESS(_WORD_BYTES))
    with _cgutils.for_range_slice(builder, _ADDRESS(0), octets, _ADDRESS(_WORD_BYTES * _LANES)) as (
        offset,
        _,
    ):
        body(offset)


@llvm_intrinsic(_copy_swapped_plain)
def copy_swapped(_typing: TypingContext, _target: Kind, _source: Kind, _n: Kind) -> Generated:
    """Copy `n` words, a multiple of four, between addresses, and reverse the bytes of each."""

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        target, source, n = values

        def copy(offset: Value) -> None:
            words = builder.load(_vector_at(builder, source, offset), align=_WORD_BYTES)
            builder.store(_swap_words(builder, words), _vector_at(builder, target, offset), align=_WORD_BYTES)

        _for_each_vector(builder, n, copy)
        return context.get_dummy_value()

    return _types.none(_types.int64, _types.int64, _types.int64), code


@llvm_intrinsic(_add_swapped_plain)
def add_swapped(_typing: TypingContext, _target: Kind, _source: Kind, _n: Kind) -> Generated:
    """Add `n` words, a multiple of four, whose bytes are reversed; the sums wrap.

    Bit 31 of the result tells whether a sum has overflowed as a signed number.
    """

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        target, source, n = values
        overflow = _cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, None))

        def add(offset: Value) -> None:
            place = _vector_at(builder, target, offset)
            delta = _swap_words(builder, builder.load(_vector_at(builder, source, offset), align=_WORD_BYTES))
            value = builder.load(place, align=_WORD_BYTES)
            total = builder.add(value, delta)
            builder.store(total, place, align=_WORD_BYTES)
            bits = builder.and_(builder.xor(value, total), builder.xor(delta, total))
            builder.store(builder.or_(builder.load(overflow), bits), overflow)

        _for_each_vector(builder, n, add)
        bits = builder.load(overflow)
        words = [builder.extract_element(bits, _WORD(k)) for k in range(_LANES)]
        any_bits = builder.or_(builder.or_(words[0], words[1]), builder.or_(words[2], words[3]))
        return builder.zext(any_bits, _ADDRESS)

    return _types.int64(_types.int64, _types.int64, _types.int64), code
