"""Compiled handlers of hosts, made of functions of users (`Host.run_compiled`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from nativekit.compile import carray, compiled
from nativekit.llvm import Module
from nativekit.memory import pointer
from nativekit.records import Octets
from softswitch.compiled import OUT_CAPACITY
from softswitch.errors import SwitchError
from softswitch.network.handlers import HANDLER_SIGNATURE, RAISED, WORD_BYTES

_numba: Module = numba
Handler = Callable[[NDArray[Any], Octets, int, Octets], int]
"""A function of the state, a frame, the time in ns, and the output; it returns its next wake, or -1."""


class CompiledHandler(NamedTuple):
    """Machine code of a handler; it is valid as long as `code` and `state` are referred to."""

    code: Any  # numba's, which has no type hints
    state: NDArray[Any]

    @property
    def address(self) -> int:
        return int(self.code.address)


@compiled
def add_frame(out: Octets, frame: Octets) -> bool:
    """Send a copy of a frame, in a compiled handler; return False if its output has no room for more."""
    used = out[:WORD_BYTES].view(np.int64)
    begin = used[0] + WORD_BYTES
    end = begin + (len(frame) + WORD_BYTES - 1) // WORD_BYTES * WORD_BYTES
    if end > len(out):
        return False
    out[used[0] : begin].view(np.int64)[0] = len(frame)
    out[begin : begin + len(frame)] = frame
    used[0] = end
    return True


def compile_handler(handler: Handler, state: NDArray[Any]) -> CompiledHandler:
    """Return the machine code of a function, for a state of one dimension; raises `SwitchError`."""
    name = getattr(handler, "__name__", repr(handler))
    if not _is_plain(state):
        raise SwitchError(f"handler {name}: expected a contiguous numpy array of numbers, of one dimension")
    try:
        return CompiledHandler(_compile(handler, state.dtype), state)
    except NumbaError as error:
        raise SwitchError(
            f"handler {name}: expected a function that numba compiles, which returns an integer: {error}"
        ) from None


def _is_plain(state: object) -> bool:
    return (
        isinstance(state, np.ndarray)
        and state.ndim == 1
        and state.flags.c_contiguous
        and not state.dtype.hasobject
    )


@cache
def _compile(handler: Handler, dtype: np.dtype[Any]) -> Any:  # numba's
    handle = _numba.njit(error_model="numpy")(handler)

    def call(state_at: int, items: int, frame_at: int, length: int, now: int, out_at: int) -> int:
        try:
            return handle(  # type: ignore[no-any-return]  # numba checks it
                carray(pointer(state_at), items, dtype),
                carray(pointer(frame_at), length, np.uint8),
                now,
                carray(pointer(out_at), OUT_CAPACITY, np.uint8),
            )
        except Exception:
            return RAISED

    return _numba.cfunc(HANDLER_SIGNATURE)(call)
