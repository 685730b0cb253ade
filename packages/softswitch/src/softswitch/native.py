"""Decorator of the switch's compiled entry points, and calls by address from compiled code."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from llvmlite import ir
from numba import types

from nativekit.compile import cached_entry_point, intrinsic
from nativekit.llvm import Context, Function, Generated, Kind, Signature, TypingContext, Value, Values
from softswitch.memory import process
from softswitch.memory.process import ARGUMENTS, RESULT_KIND

F = TypeVar("F", bound=Function)

_PACKAGE_FOLDER = Path(__file__).parent


def entry_point(function: F) -> F:
    """Decorate a function that Python calls; it runs without the GIL, and its machine code is cached."""
    package = Path(function.__code__.co_filename).parent
    shared_sources = (
        source for folder in (".", "memory", "queues") for source in (_PACKAGE_FOLDER / folder).glob("*.py")
    )
    return cached_entry_point(function, package, {*package.glob("*.py"), *shared_sources})


_KINDS: dict[process.Kind, Kind] = {
    process.Kind.ADDRESS: types.intp,
    process.Kind.INT32: types.int32,
    process.Kind.UINT32: types.uint32,
    process.Kind.UINT64: types.uint64,
}
PROCESS_SIGNATURE = _KINDS[RESULT_KIND](*(_KINDS[argument.kind] for argument in ARGUMENTS))


def call_address(context: Context, builder: ir.IRBuilder, signature: Signature, values: Values) -> Value:
    """Emit a call of the function whose address is the first of `values`, with the others as arguments."""
    arguments = [context.get_value_type(kind) for kind in signature.args]
    function_type = ir.FunctionType(context.get_value_type(signature.return_type), arguments)
    return builder.call(builder.inttoptr(values[0], function_type.as_pointer()), values[1:])


@intrinsic
def call_process(
    _typing: TypingContext, function: Kind, state: Kind, port: Kind, frame: Kind, length: Kind, t_in: Kind,
    now: Kind, out: Kind, capacity: Kind,
) -> Generated:  # fmt: skip

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        return call_address(context, builder, PROCESS_SIGNATURE, values)

    return PROCESS_SIGNATURE.return_type(types.intp, *PROCESS_SIGNATURE.args), code
