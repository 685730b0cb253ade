"""Raw memory in compiled functions: pointers, bytes, and words shared with another thread or the kernel."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from nativekit.compile import intrinsic
from nativekit.llvm import Context, Generated, Kind, Signature, TypingContext, Value, Values


@intrinsic
def pointer(_typing: TypingContext, address: Kind) -> Generated:
    def code(_context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), code


@intrinsic
def byte_at(_typing: TypingContext, address: Kind) -> Generated:
    def code(_context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        byte = builder.load(builder.inttoptr(values[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return types.int64(types.intp), code


@intrinsic
def load_acquire(_typing: TypingContext, address: Kind) -> Generated:
    """Load a uint32 that another thread or the kernel publishes; later reads are not reordered before it."""

    def code(_context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        word = builder.inttoptr(values[0], ir.IntType(32).as_pointer())
        return builder.load_atomic(word, "acquire", align=4)

    return types.uint32(types.intp), code


@intrinsic
def store_release(_typing: TypingContext, address: Kind, value: Kind) -> Generated:
    """Store a uint32 for another thread or the kernel; earlier accesses are not reordered after it."""

    def code(_context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        word = builder.inttoptr(values[0], ir.IntType(32).as_pointer())
        builder.store_atomic(values[1], word, "release", align=4)

    return types.void(types.intp, types.uint32), code
