"""Compiled functions as plain Python, where numba is not installed: equal results, 100 to 1,000 times slower.

`nativekit.compile`, `nativekit.generic` and `nativekit.reference` take these functions then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from nativekit.installed import NumbaMissing, absence_message
from nativekit.records import Octets

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
T = TypeVar("T")


def compiled(function: F) -> F:
    cast(Any, function).py_func = function
    return function


inlined = compiled


def cached_entry_point(function: F, _package: Path, _sources: Iterable[Path]) -> F:
    """Return a function whose integers wrap without a warning, as those of machine code."""

    @functools.wraps(function)
    def call(*args: object) -> object:
        with np.errstate(over="ignore"):
            return function(*args)

    plain_call: Any = call
    plain_call.py_func, plain_call.signatures = function, []
    return cast(F, plain_call)


def intrinsic(generate: Function) -> Function:
    """Return a function that raises `NumbaMissing`: this generator of LLVM IR has no form in Python."""

    def refuse(*_arguments: object) -> object:
        raise NumbaMissing(absence_message(f"{generate.__module__}.{generate.__name__}"))

    return refuse


def llvm_intrinsic(plain_form: F) -> Callable[[Function], F]:
    """Return a decorator that replaces a generator of LLVM IR by `plain_form`."""

    def decorate(_generate: Function) -> F:
        cast(Any, plain_form).plain = plain_form
        return plain_form

    return decorate


def carray(_pointer: object, _shape: object, _dtype: object = None) -> NDArray[Any]:
    raise NumbaMissing(absence_message("an array at an address"))


def as_ref(value: T) -> T:
    return value


def row(stacked: T, index: int) -> T:
    """Return row `index` of a tuple of arrays; read-only arrays are shared by all rows."""

    def row_of(field: Any) -> Any:  # an array, or a tuple of arrays
        if hasattr(field, "_fields"):
            return row(field, index)
        return field[index] if field.flags.writeable else field

    parts: Any = stacked  # a `NamedTuple`
    return type(stacked)(*map(row_of, parts))


def pinned_ref(state: T, _write: object = None) -> T:
    return state


def unwrap_ref(state: T) -> T:
    return state


def write_words(_state: object, _place: Octets) -> int:
    """Write nothing: plain Python has no machine words."""
    return 0
