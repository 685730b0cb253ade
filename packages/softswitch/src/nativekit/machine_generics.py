"""The types by which numba calls the functions of `nativekit.generic`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from numba import extending as _extending
from numba import typeof as _typeof
from numba import types
from numba.core import errors as _errors
from numba.core import imputils as _imputils
from numba.core.datamodel import models

from nativekit.llvm import Compiled, Function, Kind, Module, Signature, TypingContext
from nativekit.machine_references import Reference

errors: Module = _errors
extending: Module = _extending
imputils: Module = _imputils
typeof: Compiled = _typeof


class GenericType(types.Callable, types.Opaque):
    def __init__(self, generic: Compiled) -> None:
        self.generic = generic  # a `nativekit.generic.Generic`
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


extending.register_model(GenericType)(models.OpaqueModel)


# All that compiled code needs of a generic function is its type.
imputils.lower_constant(GenericType)(lambda context, *_: context.get_dummy_value())


def register_generics(generic_class: type) -> None:
    """Have numba take the attribute `kind` of such objects for their type."""
    extending.typeof_impl.register(generic_class)(lambda value, _context: value.kind)
