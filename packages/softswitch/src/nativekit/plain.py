"""Run compiled functions as plain Python on the same arrays, to debug them; 1,000 times slower."""

from __future__ import annotations

import functools
import types as python_types
from collections.abc import Mapping
from typing import TypeVar, cast

import numpy as np

from nativekit.generic import Generic
from nativekit.installed import HAS_NUMBA
from nativekit.libc import plain_function
from nativekit.llvm import Compiled, Function
from nativekit.reference import unwrap_ref

if HAS_NUMBA:
    from numba import types
    from numba.core.dispatcher import Dispatcher

F = TypeVar("F", bound=Function)


def plain(function: F, replacements: Mapping[Compiled, Function] | None = None) -> F:
    """Return a compiled function, and all compiled functions that it calls, as plain Python.

    Integers wrap as in compiled code. `replacements` maps compiled functions to Python functions that replace
    them. Without numba, all functions are plain already, and none can be replaced.
    """
    if not HAS_NUMBA:
        assert not replacements, "nothing takes the place of functions that are plain already"
        return function
    body = _Namespaces(replacements or {}).plain_function(function)

    @functools.wraps(body)
    def call(*args: object) -> object:
        with np.errstate(over="ignore"):
            return body(*map(unwrap_ref, args))

    return cast(F, call)


class _Namespaces:
    def __init__(self, replacements: Mapping[Compiled, Function]) -> None:
        self._replacements = {id(compiled): replacement for compiled, replacement in replacements.items()}
        # Copies of modules' globals with plain functions, by id of the globals.
        self._copies: dict[int, dict[str, object]] = {}

    def plain_function(self, compiled: Compiled) -> Function:
        source = compiled.py_func
        return python_types.FunctionType(
            source.__code__, self._plain_namespace(source.__globals__), source.__name__, source.__defaults__
        )

    def _plain_namespace(self, original: dict[str, object]) -> dict[str, object]:
        if id(original) not in self._copies:
            # The copy is stored before its functions are replaced, since they may refer to it.
            self._copies[id(original)] = dict(original)
            self._copies[id(original)].update(
                (name, form)
                for name, value in original.items()
                if (form := self._plain_form(value)) is not None
            )
        return self._copies[id(original)]

    def _plain_form(self, value: object) -> Function | None:
        if id(value) in self._replacements:
            return self._replacements[id(value)]
        if hasattr(value, "plain"):  # an `llvm_intrinsic` has its plain form with it
            return cast(Function, value.plain)
        if isinstance(value, types.ExternalFunction):
            kinds = [str(kind) for kind in value.sig.args]
            return plain_function(value.symbol, str(value.sig.return_type), kinds)
        if isinstance(value, Generic):
            return self._dispatching_function(value)
        return self._lazy_function(value) if isinstance(value, Dispatcher) else None

    def _dispatching_function(self, generic: Generic) -> Function:
        plain_form_of: Function = functools.cache(
            lambda owner: cast(Function, self._plain_form(generic.dispatch(owner)))
        )
        return lambda state, *args: plain_form_of(type(state))(state, *args)

    def _lazy_function(self, compiled: Compiled) -> Function:
        """Return a function that is built at its first call, since modules may refer to each other."""
        form = functools.cache(lambda: self.plain_function(compiled))
        return lambda *args: form()(*args)
