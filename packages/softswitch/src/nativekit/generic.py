"""Generic functions: calls compile to the implementation for the class of the first argument, a named tuple.

A loop calls `transmit(state, now)` and is compiled for each class of state with that class's `transmit`. So
there is one loop without closures, and numba finds cached machine code by its signature. The plain-Python
form dispatches on the class of the tuple at each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Compiled, Kind

if HAS_NUMBA:
    from nativekit.machine_generics import GenericType, register_generics

F = TypeVar("F", bound=NamedTuple)
_modules: dict[type, set[str]] = {}


def modules_of(owner: type) -> frozenset[str]:
    """Return the names of the modules with a class's implementations of all generic functions."""
    return frozenset(_modules.get(owner, ()))


class Generic:
    def __init__(self, name: str) -> None:
        self.name = name
        self._implementations: dict[type, Compiled] = {}
        self.kind: Kind = GenericType(self) if HAS_NUMBA else None

    def dispatch(self, owner: type) -> Compiled:
        if owner not in self._implementations:
            raise LookupError(
                f"{self.name} has no implementation for {owner.__module__}.{owner.__qualname__}"
            )
        return self._implementations[owner]

    def register(self, owner: type, implementation: Compiled) -> None:
        # Call this at import only, since cached machine code contains the implementations. Numba treats
        # named tuples as equal if their class names, field names and field types are equal.
        if any(registered.__name__ == owner.__name__ for registered in self._implementations):
            raise ValueError(f"{self.name} has an implementation for a class {owner.__name__} already")
        self._implementations[owner] = implementation
        _modules.setdefault(owner, set()).add(implementation.py_func.__module__)


class InterpretedGeneric(Generic):
    """A generic function that Python calls, where no code is compiled."""

    def __call__(self, state: object, *arguments: object) -> object:
        return self.dispatch(type(state))(state, *arguments)


def generics(interface: type[F]) -> F:
    """Return generic functions for an interface, a `NamedTuple` of callables."""
    construct = cast(Callable[..., F], interface)  # generic functions take the place of implementations
    return construct(*map(Generic if HAS_NUMBA else InterpretedGeneric, interface._fields))


def implement(owner: type, interface: F, implementations: F) -> None:
    for generic, implementation in zip(cast(tuple[Generic, ...], interface), implementations, strict=True):
        generic.register(owner, implementation)


if HAS_NUMBA:
    register_generics(Generic)
