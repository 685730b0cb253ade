"""References to named tuples of arrays: functions take one pointer, and numba counts no references.

Numba passes a tuple as all words of all its arrays in every call (five hundred for a simulation), and
counts a reference at each access. In code of many small functions this takes most of the time. A function
that begins with `state = as_ref(state)` reads only the fields it uses; the rest of its source is unchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import extending as _extending
from numba import typeof as _typeof
from numba import types
from numba.core import cgutils as _cgutils
from numba.core.datamodel import models
from numba.core.typing import templates
from numba.np.arrayobj import make_array as _make_array

from nativekit.compile import cached_entry_point, leaf
from nativekit.llvm import (
    Compiled,
    Context,
    Function,
    Generated,
    Kind,
    Module,
    Signature,
    TypingContext,
    Value,
    Values,
)
from nativekit.records import Octets

cgutils: Module = _cgutils
extending: Module = _extending
make_array: Compiled = _make_array
typeof: Compiled = _typeof
T = TypeVar("T")
WriteWords = Callable[[object, Octets], int]


class Reference(types.Type):
    def __init__(self, pointee: Kind) -> None:
        self.pointee = pointee
        make: Function = super().__init__  # has no type hints
        make(name=f"Reference({pointee})")

    @property
    def key(self) -> object:
        """The key of the pointee's type, since types of two classes may have the same name."""
        return self.pointee.key

    def index_of(self, field: str) -> int:
        return self.pointee.fields.index(field) if field in self.pointee.fields else -1


@extending.register_model(Reference)
class _Pointer(models.PrimitiveModel):
    def __init__(self, manager: Compiled, kind: Reference) -> None:
        make: Function = super().__init__  # has no type hints
        make(manager, kind, manager.lookup(kind.pointee).get_value_type().as_pointer())


def _field_type(_template: TypingContext, kind: Reference, field: str) -> Kind:
    at = kind.index_of(field)
    return None if at < 0 else _by_reference(kind.pointee.types[at])


def _by_reference(kind: Kind) -> Kind:
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@extending.infer_getattr
class _Fields(templates.AttributeTemplate):
    key = Reference
    generic_resolve: Compiled = _field_type


def _field(context: Context, builder: ir.IRBuilder, kind: Reference, value: Value, field: str) -> Value:
    at = kind.index_of(field)
    place = cgutils.gep_inbounds(builder, value, 0, at)
    found = kind.pointee.types[at]
    if isinstance(found, types.BaseNamedTuple):
        return place
    return _uncounted(context, builder, found, builder.load(place))


extending.lower_getattr_generic(Reference)(_field)


def _uncounted(context: Context, builder: ir.IRBuilder, kind: Kind, value: Value) -> Value:
    """Return the same arrays without an owner, so that numba omits reference counting."""
    if isinstance(kind, types.BaseTuple):
        parts = [
            _uncounted(context, builder, each, builder.extract_value(value, i))
            for i, each in enumerate(cast(Kind, kind).types)
        ]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    array = make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


def _as_ref_plain(value: T) -> T:
    return value


@leaf(_as_ref_plain)
def as_ref(_typing: TypingContext, value: Kind) -> Generated:
    """Return a reference to the tuple for one call from Python, whose caller keeps the arrays alive."""

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        if not isinstance(value, types.BaseNamedTuple):
            return _uncounted(context, builder, value, values[0])
        place = cgutils.alloca_once(builder, values[0].type)
        builder.store(values[0], place)
        return place

    return _by_reference(value)(value), code


def _row_as_plain(stacked: T, at: int) -> T:
    def row_of(field: Any) -> Any:  # an array, or a tuple of arrays
        if hasattr(field, "_fields"):
            return _row_as_plain(field, at)
        return field[at] if field.flags.writeable else field

    parts: Any = stacked  # a `NamedTuple`
    return type(stacked)(*map(row_of, parts))


@leaf(_row_as_plain)
def row(typing: TypingContext, stacked: Kind, at: Kind) -> Generated:
    """Return a reference to row `at` of a tuple of arrays; read-only arrays are shared by all rows."""
    result = _row_kind(typing, stacked.pointee, at)

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        tuple_of_row = _row(context, builder, stacked.pointee, result, values[0], at, values[1])
        place = cgutils.alloca_once(builder, tuple_of_row.type)
        builder.store(tuple_of_row, place)
        return place

    return Reference(result)(stacked, at), code


def _row_kind(typing: TypingContext, stacked: Kind, at: Kind) -> Kind:
    parts = []
    for field in stacked.types:
        if isinstance(field, types.BaseNamedTuple):
            parts.append(_row_kind(typing, field, at))
        else:
            found = typing.resolve_function_type(operator.getitem, (field, at), {})
            parts.append(found.return_type if field.mutable else field)
    tuple_types: Kind = types.BaseTuple
    return tuple_types.from_types(parts, stacked.instance_class)


def _row(
    context: Context,
    builder: ir.IRBuilder,
    stacked: Kind,
    result: Kind,
    place: Value,
    at: Kind,
    number: Value,
) -> Value:
    parts = []
    for i, (field, kind) in enumerate(zip(stacked.types, result.types, strict=True)):
        address = cgutils.gep_inbounds(builder, place, 0, i)
        if isinstance(field, types.BaseNamedTuple):
            parts.append(_row(context, builder, field, kind, address, at, number))
            continue
        part = _uncounted(context, builder, field, builder.load(address))
        if field.mutable:
            item = context.get_function(operator.getitem, kind(field, at))
            part = _uncounted(context, builder, kind, item(builder, (part, number)))
        parts.append(part)
    return context.make_tuple(builder, result, parts)


def pinned_ref(state: T, write: WriteWords | None = None) -> T:
    """Return a reference to the tuple for entry points, which then unbox no arrays.

    Unboxing costs half a microsecond an array in each call. `write` is a compiled `write_words`, for callers
    that cache the machine code of their states separately.
    """
    return cast(T, _PinnedRef(state, write or _write))


def unwrap_ref(given: T) -> T:
    return cast(T, given.state) if isinstance(given, _PinnedRef) else given


class _PinnedRef:
    def __init__(self, state: object, write: WriteWords) -> None:
        self.state = state  # keeps its arrays alive
        self._place = np.zeros(write(state, np.zeros(0, np.uint8)), np.uint8)
        write(state, self._place)
        self.address: int = self._place.ctypes.data
        self._numba_type_ = Reference(typeof(state))


def _address_of(kind: Reference, given: Value, c: Context) -> Value:
    address = c.pyapi.object_getattr_string(given, "address")
    value = c.pyapi.number_as_ssize_t(address)
    c.pyapi.decref(address)
    return extending.NativeValue(
        c.builder.inttoptr(value, c.context.get_value_type(kind)), c.pyapi.c_api_error()
    )


extending.unbox(Reference)(_address_of)


def write_words(state: object, place: Octets) -> int:
    """Copy a tuple's words into `place` if they fit, and return the number of bytes needed."""
    return _write_at(state, place)


_write = cached_entry_point(write_words, Path(__file__).parent, ())


def _write_plain(_state: object, _place: Octets) -> int:
    """Write nothing: plain Python has no machine words."""
    return 0


@leaf(_write_plain)
def _write_at(_typing: TypingContext, state: Kind, place: Kind) -> Generated:
    def code(context: Context, builder: ir.IRBuilder, signature: Signature, values: Values) -> Value:
        buffer = make_array(place)(context, builder, values[1])
        needed = context.get_constant(types.intp, context.get_abi_sizeof(values[0].type))
        with builder.if_then(builder.icmp_signed("<=", needed, buffer.nitems)):
            at = builder.bitcast(buffer.data, values[0].type.as_pointer())
            builder.store(values[0], at)
        return needed

    return types.intp(state, place), code
