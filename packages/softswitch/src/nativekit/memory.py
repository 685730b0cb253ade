"""Raw memory in compiled functions: pointers, bytes, and words shared with another thread or the kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from nativekit.compile import intrinsic, llvm_intrinsic
from nativekit.installed import HAS_NUMBA
from nativekit.llvm import (
    Compiled,
    Context,
    Generated,
    Kind,
    Module,
    Signature,
    TypingContext,
    Value,
    Values,
)

if HAS_NUMBA:  # generators of LLVM IR alone use these
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils as _cgutils
    from numba.np.arrayobj import make_array as _make_array

    cgutils: Module = _cgutils
    make_array: Compiled = _make_array


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


def _store_item_plain(array: NDArray[Any], index: int, value: int) -> None:
    array[index] = value


@llvm_intrinsic(_store_item_plain)
def store_item_release(_typing: TypingContext, array: Kind, index: Kind, value: Kind) -> Generated:
    """Store an item of an array of booleans or integers, whole, after all stores that come earlier.

    Every change of a mapped file whose order matters is such a store: LLVM may reorder or split plain ones,
    and a process that is killed leaves the file as it is between two instructions. The index is not checked.
    """

    def code(context: Context, builder: ir.IRBuilder, signature: Signature, values: Values) -> Value:
        items = make_array(array)(context, builder, values[0])
        position = context.cast(builder, values[1], index, types.intp)
        address = cgutils.get_item_pointer(context, builder, array, items, [position])
        item = context.cast(builder, values[2], value, array.dtype)
        word = context.get_value_as_data(builder, array.dtype, item)  # a boolean is a byte in memory
        n_bytes = context.get_abi_sizeof(word.type)  # alignment: numpy's arrays of numbers have it
        builder.store_atomic(word, address, "release", align=n_bytes)
        return context.get_dummy_value()

    return types.none(array, index, value), code
