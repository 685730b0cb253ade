"""Generic functions: calls compile to the implementation for the class of the first argument, a named tuple.

A loop calls `transmit(state, now)` and is compiled for each class of state with that class's `transmit`. So
there is one loop without closures, and numba finds cached machine code by its signature. The plain-Python
form dispatches on the class of the tuple at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

from numba import extending as _extending
from numba import typeof as _typeof
from numba import types
from numba.core import errors as _errors
from numba.core import imputils as _imputils
from numba.core.datamodel import models

from nativekit.llvm import Compiled, Function, Kind, Module, Signature, TypingContext
from nativekit.reference import Reference

errors: Module = _errors
extending: Module = _extending
imputils: Module = _imputils
typeof: Compiled = _typeof
F = TypeVar("F", bound=NamedTuple)
_modules: dict[type, set[str]] = {}


def modules_of(owner: type) -> frozenset[str]:
    """Return the names of the modules with a class's implementations of all generic functions."""
    return frozenset(_modules.get(owner, ()))


class Generic:
    def __init__(self, name: str) -> None:
        self.name = name
        self._implementations: dict[type, Compiled] = {}
        self.kind = _GenericType(self)

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


class _GenericType(types.Callable, types.Opaque):
    def __init__(self, generic: Generic) -> None:
        self.generic = generic
        initialize: Function = super().__init__  # has no type hints
        initialize(f"generic({generic.name})")

    @property
    def key(self) -> int:
        return id(self.generic)

    def _implementation_type(self, state: Kind) -> Kind:
        kind = state.pointee if isinstance(state, Reference) else state
        if not isinstance(kind, types.BaseNamedTuple):
            raise errors.TypingError(f"{self.generic.name}: expected a named tuple, got {state}")
        try:
            return typeof(self.generic.dispatch(cast(Kind, kind).instance_class))
        except LookupError as error:
            raise errors.TypingError(str(error)) from error

    def get_call_type(self, context: TypingContext, args: Sequence[Kind], kws: Kind) -> Signature:
        return self._implementation_type(args[0]).get_call_type(context, args, kws)

    def get_call_signatures(self) -> tuple[tuple[()], bool]:
        return (), True  # no fixed signatures: they depend on the arguments

    def get_impl_key(self, sig: Signature) -> object:
        return self._implementation_type(sig.args[0]).get_impl_key(sig)


extending.register_model(_GenericType)(models.OpaqueModel)
extending.typeof_impl.register(Generic)(lambda value, _context: value.kind)


# All that compiled code needs of a generic function is its type.
imputils.lower_constant(_GenericType)(lambda context, *_: context.get_dummy_value())


def generics(interface: type[F]) -> F:
    """Return generic functions for an interface, a `NamedTuple` of callables."""
    construct = cast(Callable[..., F], interface)  # generic functions take the place of implementations
    return construct(*map(Generic, interface._fields))


def implement(owner: type, interface: F, implementations: F) -> None:
    for generic, implementation in zip(cast(tuple[Generic, ...], interface), implementations, strict=True):
        generic.register(owner, implementation)
