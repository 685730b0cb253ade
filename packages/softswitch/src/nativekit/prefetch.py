"""Prefetch hints. They change timing and nothing else."""

from __future__ import annotations

from nativekit.compile import compiled, llvm_intrinsic
from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Context, Generated, Kind, Signature, TypingContext, Value, Values
from nativekit.records import CACHE_LINE_BYTES

if HAS_NUMBA:  # generators of LLVM IR alone use these
    from llvmlite import ir
    from numba import types

_READ, _ALL_LEVELS, _DATA = 0, 3, 1
"""Arguments of LLVM's `prefetch`: for a read, into all levels of the cache, of data."""


def _prefetch_plain(_address: int) -> None:
    """Do nothing: plain Python cannot prefetch."""


@llvm_intrinsic(_prefetch_plain)
def prefetch(_typing: TypingContext, _address: Kind) -> Generated:
    """Prefetch the cache line at an address, which may be unmapped."""

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        place = builder.inttoptr(values[0], pointer)
        builder.call(prefetch, [place, word(_READ), word(_ALL_LEVELS), word(_DATA)])
        return context.get_dummy_value()

    return types.none(types.intp), code


@compiled
def prefetch_lines(address: int, octets: int) -> None:
    for offset in range(0, octets, CACHE_LINE_BYTES):
        prefetch(address + offset)
