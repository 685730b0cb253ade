"""Views of a datagram's buffer as a record with the fields of a packet format, for compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from llvmlite import ir

from foundation.protocol.rpc import Rpc
from nativekit.compile import llvm_intrinsic
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values

_numba: Module = numba
R = TypeVar("R")


def view_as(_record: type[R], dtype: np.dtype[np.void]) -> Callable[[Rpc], R]:
    """Return a function that views a buffer, without a copy, as a record of this type."""

    def view_in_python(rpc: Rpc) -> R:
        record: np.record = cast(np.record, rpc)
        return cast(R, record.view((np.record, dtype)))

    @llvm_intrinsic(view_in_python)
    def view(_typing: TypingContext, rpc: Kind) -> Generated:
        kind = _numba.from_dtype(dtype)

        def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
            return builder.bitcast(values[0], context.get_value_type(kind))

        return kind(rpc), code

    return view
