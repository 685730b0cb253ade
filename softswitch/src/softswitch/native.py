"""Decorator of the switch's compiled entry points, and the call of a packet function from compiled code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import ir
from numba import types

from nativekit.compile import cached_entry_point, intrinsic
from softswitch.memory.process import ARGUMENTS, RESULT, Kind

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent


def entry_point(function: F) -> F:
    """Decorate a function that Python calls; it runs without the GIL, and its machine code is cached."""
    package = Path(function.__code__.co_filename).parent
    below = (source for folder in (".", "memory", "queues") for source in (_HERE / folder).glob("*.py"))
    return cached_entry_point(function, package, {*package.glob("*.py"), *below})


_KINDS: dict[Kind, Any] = {
    Kind.ADDRESS: types.intp,
    Kind.INT32: types.int32,
    Kind.UINT32: types.uint32,
    Kind.UINT64: types.uint64,
}
PROCESS = _KINDS[RESULT](*(_KINDS[argument.kind] for argument in ARGUMENTS))
"""Numba signature of the packet function (`memory.process`)."""


@intrinsic
def call_process(
    _typing: Any, function: Any, state: Any, port: Any, frame: Any, length: Any, t_in: Any, now: Any,
    out: Any, capacity: Any,
) -> Any:  # fmt: skip
    """Call the packet function, which has the signature `PROCESS`, at an address."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, values: Any) -> Any:
        arguments = [context.get_value_type(kind) for kind in PROCESS.args]
        native = ir.FunctionType(context.get_value_type(PROCESS.return_type), arguments)
        return builder.call(builder.inttoptr(values[0], native.as_pointer()), values[1:])

    return PROCESS.return_type(types.intp, *PROCESS.args), generate
