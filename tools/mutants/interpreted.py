"""Run agents as plain Python, so that a mutant of compiled code is not compiled, which takes 30 s."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import foundation.compiled
from nativekit.plain import plain

F = TypeVar("F", bound=Callable[..., Any])


def interpret() -> None:
    """Replace entry points by pure-Python versions; call this before any of them is imported."""
    foundation.compiled.entry_point = _interpreted


def _interpreted(function: F) -> F:
    interpreted: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not interpreted:
            interpreted.append(plain(cast(Any, call)))
        return interpreted[0](*args)

    # `nativekit.plain` runs `py_func` in plain Python, and calls of other functions go to their attribute
    # `plain`.
    cast(Any, call).py_func = function
    cast(Any, call).plain = call
    return cast(F, call)
