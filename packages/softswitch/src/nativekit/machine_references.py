"""The references of `nativekit.reference`, by numba: their types, and their LLVM IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import _dispatcher, types
from numba import extending as _extending
from numba import typeof as _typeof
from numba.core import cgutils as _cgutils
from numba.core.datamodel import models
from numba.core.typing import templates
from numba.np.arrayobj import make_array as _make_array

from nativekit import interpreted
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
from nativekit.machine_code import cached_entry_point, llvm_intrinsic
from nativekit.records import Octets

cgutils: Module = _cgutils
extending: Module = _extending
make_array: Compiled = _make_array
typeof: Compiled = _typeof
fingerprint_of: Function = _dispatcher.compute_fingerprint  # numba has no public one
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
    index = kind.index_of(field)
    return None if index < 0 else _reference_type(kind.pointee.types[index])


def _reference_type(kind: Kind) -> Kind:
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@extending.infer_getattr
class _FieldTypes(templates.AttributeTemplate):
    key = Reference
    generic_resolve: Compiled = _field_type


def _lower_field(context: Context, builder: ir.IRBuilder, kind: Reference, value: Value, field: str) -> Value:
    index = kind.index_of(field)
    address = cgutils.gep_inbounds(builder, value, 0, index)
    field_type = kind.pointee.types[index]
    if isinstance(field_type, types.BaseNamedTuple):
        return address
    return _drop_owner(context, builder, field_type, builder.load(address))


extending.lower_getattr_generic(Reference)(_lower_field)


def _drop_owner(context: Context, builder: ir.IRBuilder, kind: Kind, value: Value) -> Value:
    """Return the same arrays without an owner, so that numba omits reference counting."""
    if isinstance(kind, types.BaseTuple):
        parts = [
            _drop_owner(context, builder, part_type, builder.extract_value(value, i))
            for i, part_type in enumerate(cast(Kind, kind).types)
        ]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    array = make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@llvm_intrinsic(interpreted.as_ref)
def as_ref(_typing: TypingContext, value: Kind) -> Generated:
    """Return a reference to the tuple for one call from Python, whose caller keeps the arrays alive."""

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        if not isinstance(value, types.BaseNamedTuple):
            return _drop_owner(context, builder, value, values[0])
        slot = cgutils.alloca_once(builder, values[0].type)
        builder.store(values[0], slot)
        return slot

    return _reference_type(value)(value), code


@llvm_intrinsic(interpreted.row)
def row(typing: TypingContext, stacked: Kind, index: Kind) -> Generated:
    """Return a reference to row `index` of a tuple of arrays; read-only arrays are shared by all rows."""
    result = _row_type(typing, stacked.pointee, index)

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        tuple_of_row = _build_row(context, builder, stacked.pointee, result, values[0], index, values[1])
        slot = cgutils.alloca_once(builder, tuple_of_row.type)
        builder.store(tuple_of_row, slot)
        return slot

    return Reference(result)(stacked, index), code


def _row_type(typing: TypingContext, stacked: Kind, index: Kind) -> Kind:
    parts = []
    for field in stacked.types:
        if isinstance(field, types.BaseNamedTuple):
            parts.append(_row_type(typing, field, index))
        else:
            signature = typing.resolve_function_type(operator.getitem, (field, index), {})
            parts.append(signature.return_type if field.mutable else field)
    tuple_types: Kind = types.BaseTuple
    return tuple_types.from_types(parts, stacked.instance_class)


def _build_row(
    context: Context,
    builder: ir.IRBuilder,
    stacked: Kind,
    result: Kind,
    base: Value,
    index_type: Kind,
    index: Value,
) -> Value:
    parts = []
    for i, (field, kind) in enumerate(zip(stacked.types, result.types, strict=True)):
        address = cgutils.gep_inbounds(builder, base, 0, i)
        if isinstance(field, types.BaseNamedTuple):
            parts.append(_build_row(context, builder, field, kind, address, index_type, index))
            continue
        part = _drop_owner(context, builder, field, builder.load(address))
        if field.mutable:
            item = context.get_function(operator.getitem, kind(field, index_type))
            part = _drop_owner(context, builder, kind, item(builder, (part, index)))
        parts.append(part)
    return context.make_tuple(builder, result, parts)


def pinned_ref(state: T, write: WriteWords | None = None) -> T:
    """Return a reference to the tuple for entry points, which then unbox no arrays.

    Unboxing costs half a microsecond an array in each call. `write` is a compiled `write_words`, for callers
    that cache the machine code of their states separately.
    """
    return cast(T, _PinnedRef(state, write or _compiled_write_words))


def unwrap_ref(state_or_ref: T) -> T:
    return cast(T, state_or_ref.state) if isinstance(state_or_ref, _PinnedRef) else state_or_ref


class _PinnedRef:
    def __init__(self, state: object, write: WriteWords) -> None:
        self.state = state  # keeps its arrays alive
        layout = _layout_of(state, write)
        self._words = np.zeros(layout.needed_bytes, np.uint8)
        write(state, self._words)
        self.address: int = self._words.ctypes.data
        self._numba_type_ = layout.kind


class _Layout(NamedTuple):
    kind: Reference
    needed_bytes: int


_layouts: dict[tuple[bytes, tuple[type, ...]], _Layout] = {}


def _layout_of(state: object, write: WriteWords) -> _Layout:
    # To derive a type takes a millisecond. Numba's fingerprint has the names of classes only.
    key = fingerprint_of(state), tuple(_classes_in(state))
    if key not in _layouts:
        needed_bytes = write(state, np.zeros(0, np.uint8))  # nothing fits, so nothing is written
        _layouts[key] = _Layout(Reference(typeof(state)), needed_bytes)
    return _layouts[key]


def _classes_in(value: object) -> Iterator[type]:
    if isinstance(value, tuple):
        yield type(value)
        for part in value:
            yield from _classes_in(part)


def _unbox_address(kind: Reference, pinned_ref_object: Value, c: Context) -> Value:
    address = c.pyapi.object_getattr_string(pinned_ref_object, "address")
    value = c.pyapi.number_as_ssize_t(address)
    c.pyapi.decref(address)
    return extending.NativeValue(
        c.builder.inttoptr(value, c.context.get_value_type(kind)), c.pyapi.c_api_error()
    )


extending.unbox(Reference)(_unbox_address)


def write_words(state: object, place: Octets) -> int:
    """Copy a tuple's words into `place` if they fit, and return the number of bytes needed."""
    return _store_words(state, place)


_compiled_write_words = cached_entry_point(write_words, Path(__file__).parent, ())


@llvm_intrinsic(interpreted.write_words)
def _store_words(_typing: TypingContext, state: Kind, place: Kind) -> Generated:
    def code(context: Context, builder: ir.IRBuilder, signature: Signature, values: Values) -> Value:
        buffer = make_array(place)(context, builder, values[1])
        needed_bytes = context.get_constant(types.intp, context.get_abi_sizeof(values[0].type))
        with builder.if_then(builder.icmp_signed("<=", needed_bytes, buffer.nitems)):
            target = builder.bitcast(buffer.data, values[0].type.as_pointer())
            builder.store(values[0], target)
        return needed_bytes

    return types.intp(state, place), code
