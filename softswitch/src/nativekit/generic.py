"""Functions with a body for each design: the class of the state, their first argument, says which.

A loop calls `transmit(state, now)` and is compiled for a class of state with that class's `transmit`: what is
chosen is chosen by type, when it is compiled. So there is one loop and no closure, and machine code on disk
is found by signature. A plain twin looks at the class of the tuple that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
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


class Generic:
    """A function that is another one for each class of its first argument."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._bodies: dict[type, Compiled] = {}
        self.kind = _GenericType(self)

    def dispatch(self, owner: type) -> Compiled:
        """The compiled function for a class; raises `LookupError` where there is none."""
        if owner not in self._bodies:
            raise LookupError(f"{self.name} has no body for {owner.__module__}.{owner.__qualname__}")
        return self._bodies[owner]

    def register(self, owner: type, body: Compiled) -> None:
        """Have a body for one more class: once, while modules are loaded, as code on disk has it inside.

        Raises `ValueError` for a class with the name of another: numba takes a tuple that it is given for one
        that it was given before if class and fields have the same names, and the fields the same types.
        """
        if any(known.__name__ == owner.__name__ for known in self._bodies):
            raise ValueError(f"{self.name} has a body for a {owner.__name__} already")
        self._bodies[owner] = body

    def folder_of(self, owner: type) -> Path:
        """Where the body for a class is."""
        return Path(self.dispatch(owner).py_func.__code__.co_filename).parent


class _GenericType(types.Callable, types.Opaque):
    """The type of a generic: numba asks it what a call of these arguments is."""

    def __init__(self, generic: Generic) -> None:
        self.generic = generic
        make: Function = super().__init__  # which has no hints
        make(f"generic({generic.name})")

    @property
    def key(self) -> int:
        return id(self.generic)

    def _chosen(self, state: Kind) -> Kind:
        kind = state.pointee if isinstance(state, Reference) else state
        if not isinstance(kind, types.BaseNamedTuple):
            raise errors.TypingError(f"{self.generic.name} of {state}, which is no state of a design")
        try:
            return typeof(self.generic.dispatch(cast(Kind, kind).instance_class))
        except LookupError as error:
            raise errors.TypingError(str(error)) from error

    def get_call_type(self, context: TypingContext, args: Sequence[Kind], kws: Kind) -> Signature:
        return self._chosen(args[0]).get_call_type(context, args, kws)

    def get_call_signatures(self) -> tuple[tuple[()], bool]:
        return (), True

    def get_impl_key(self, sig: Signature) -> object:
        return self._chosen(sig.args[0]).get_impl_key(sig)


extending.register_model(_GenericType)(models.OpaqueModel)
extending.typeof_impl.register(Generic)(lambda value, _context: value.kind)


imputils.lower_constant(_GenericType)(lambda context, *_: context.get_dummy_value())


def generics(interface: type[F]) -> F:
    """The functions of an interface, a `NamedTuple` of callables, for compiled callers of whatever design."""
    make = cast(Callable[..., F], interface)  # the bodies' place is taken by what chooses them
    return make(*map(Generic, interface._fields))


def implement(owner: type, interface: F, bodies: F) -> None:
    """Let `bodies` be the functions of an interface for the states of class `owner`."""
    for generic, body in zip(cast(tuple[Generic, ...], interface), bodies, strict=True):
        generic.register(owner, body)
