"""Compiled functions as plain Python, in the same process: to read along, step through, and replay a failure.

`plain(f)` runs the same lines, so breakpoints and coverage work, and with the same arrays, in which it leaves
the same bytes. It takes a thousand times as long.
"""

from __future__ import annotations

import ctypes
import functools
import types as python
from collections.abc import Mapping
from typing import TypeVar, cast

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher

from nativekit.generic import Generic
from nativekit.llvm import Compiled, Function

F = TypeVar("F", bound=Function)

_LIBC = ctypes.CDLL(None, use_errno=True)
_WIDTHS = {"int64": ctypes.c_ssize_t, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32}


def plain(function: F, instead: Mapping[Compiled, Function] | None = None) -> F:
    """The function as plain Python, with all compiled ones that it calls; integers wrap as compiled.

    `instead` has Python functions for some of those, by the compiled one.
    """
    body = _Namespaces(instead or {}).function(function)

    @functools.wraps(body)
    def call(*args: object) -> object:
        with np.errstate(over="ignore"):
            return body(*args)

    return cast(F, call)


class _Namespaces:
    """A copy of each module's globals in which compiled functions are plain."""

    def __init__(self, instead: Mapping[Compiled, Function]) -> None:
        self._instead = {id(compiled): replacement for compiled, replacement in instead.items()}
        self._of: dict[int, dict[str, object]] = {}

    def function(self, compiled: Compiled) -> Function:
        source = compiled.py_func
        return python.FunctionType(
            source.__code__, self._namespace(source.__globals__), source.__name__, source.__defaults__
        )

    def _namespace(self, original: dict[str, object]) -> dict[str, object]:
        if id(original) not in self._of:
            self._of[id(original)] = dict(original)
            self._of[id(original)].update(
                (name, twin) for name, value in original.items() if (twin := self._twin(value)) is not None
            )
        return self._of[id(original)]

    def _twin(self, value: object) -> Function | None:
        if id(value) in self._instead:
            return self._instead[id(value)]
        if hasattr(value, "plain"):
            return cast(Function, value.plain)
        if isinstance(value, types.ExternalFunction):
            return _from_libc(value)
        if isinstance(value, Generic):
            return self._chosen(value)
        return self._late(value) if isinstance(value, Dispatcher) else None

    def _chosen(self, generic: Generic) -> Function:
        """The body for the class of the first argument."""
        made: dict[type, Function] = {}

        def call(state: object, *args: object) -> object:
            owner = type(state)
            if owner not in made:
                twin = self._twin(generic.dispatch(owner))
                assert twin is not None
                made[owner] = twin
            return made[owner](state, *args)

        return call

    def _late(self, compiled: Compiled) -> Function:
        """A function that is made at its first call, as modules may need each other's."""
        made: list[Function] = []

        def call(*args: object) -> object:
            if not made:
                made.append(self.function(compiled))
            return made[0](*args)

        return call


def _from_libc(external: Compiled) -> Function:
    function = getattr(_LIBC, external.symbol)
    function.argtypes = [_WIDTHS[str(kind)] for kind in external.sig.args]
    function.restype = _WIDTHS[str(external.sig.return_type)]
    return lambda *args: function(*map(int, args))
