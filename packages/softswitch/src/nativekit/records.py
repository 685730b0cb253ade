"""Arrays of records, which hold the state of compiled functions.

A record is declared as a class. Its annotations are the fields for type checkers, and `dtype_of` makes
numpy's dtype of them::

    class Slot:
        seq: int
        busy: Int32
        key: np.uint64
        key_at: Annotated[NDArray[np.int32], LANES]

Numba compiles functions for the dtype, and ignores annotations.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from functools import cache
from inspect import get_annotations
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

CACHE_LINE_BYTES = 64
_MIN_MAPPED_BYTES = 1 << 18  # below this, a mapping takes longer than clearing the memory

Dtype: TypeAlias = np.dtype[Any]  # of fields known only at run time
Int32: TypeAlias = Annotated[int, np.int32]
UInt8: TypeAlias = Annotated[int, np.uint8]
UInt16: TypeAlias = Annotated[int, np.uint16]
UInt32: TypeAlias = Annotated[int, np.uint32]

Words: TypeAlias = NDArray[np.uint32]
Ints: TypeAlias = NDArray[np.int64]
Octets: TypeAlias = NDArray[np.uint8]

_SCALARS: dict[object, type[np.generic]] = {int: np.int64, float: np.float64}


class Record(np.void):  # type: ignore[misc]  # numpy's stubs say that its bases are final
    """A record whose fields are attributes in plain Python.

    Numpy's own `np.record` looks each field up in Python and takes more than twice as long.
    """

    if not TYPE_CHECKING:  # fields are declared by the class of the records

        def __getattr__(self, name):
            # Called only for names that `np.void` does not have.
            if name not in self.dtype.names:
                raise AttributeError(f"a record has no field {name!r}, but {', '.join(self.dtype.names)}")
            return _of_records(_field(self, name))

        def __setattr__(self, name, value):
            self[name] = value


class Records(np.ndarray[tuple[int, ...], Dtype], Generic[R_co]):
    """An array of records, whose columns are attributes in plain Python."""

    if TYPE_CHECKING:
        # A column is an array of its field's number type.
        @overload  # type: ignore[override]  # an item is a record of the class
        def __getitem__(self, index: slice | NDArray[Any]) -> Records[R_co]: ...
        @overload
        def __getitem__(self, index: SupportsIndex | tuple[SupportsIndex, ...]) -> R_co: ...
        @overload
        def __getitem__(self, index: str) -> NDArray[Any]: ...
        def __getitem__(self, index: object) -> object: ...
        def __iter__(self) -> Iterator[R_co]: ...
        def __setitem__(self, index: object, value: object) -> None: ...
        def __getattr__(self, column: str) -> NDArray[Any]: ...
        def __setattr__(self, column: str, value: object) -> None: ...

    else:

        def __getattr__(self, column):
            if column not in (self.dtype.names or ()):
                raise AttributeError(f"records have no field {column!r}")
            values = self[column]
            return _of_records(values) if values.dtype.names else values.view(np.ndarray)

        def __setattr__(self, column, value):
            if column in (self.dtype.names or ()):
                self[column] = value
            else:
                super().__setattr__(column, value)


_field = np.void.__getitem__


def _of_records(value: Any) -> Any:  # the value of any field
    """Return a field's value; nested records that are numpy's become a `Record`, without a copy."""
    dtype = value.dtype
    is_nested = dtype.names is not None and dtype.type is not Record
    return value.view((Record, dtype)) if is_nested else value


class RecordTable(Records[R_co]):
    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, index: int | slice | tuple[int, slice]) -> Records[R_co]: ...
        @overload
        def __getitem__(self, index: tuple[SupportsIndex, ...]) -> R_co: ...
        @overload
        def __getitem__(self, index: str) -> NDArray[Any]: ...
        def __getitem__(self, index: object) -> object: ...


@cache
def dtype_of(kind: type) -> Dtype:
    """Return the dtype of a class's records, fields of base classes first. Raises as `record` does.

    A class with `OWN_FIELDS_FIRST` puts its own fields first. It needs that if one process compiles functions
    for records of its base class, or of another derived class, too: numba takes a record that begins with all
    fields of another for a subtype of it (`Record.can_convert_to`), and calls the function of that type.
    """
    hints = get_type_hints(kind, include_extras=True)
    return record(*((name, *_field_spec(hints[name])) for name in _field_names(kind)))


def _field_names(kind: type) -> list[str]:
    *bases, own_class = reversed(kind.__mro__)
    classes = [own_class, *bases] if "OWN_FIELDS_FIRST" in vars(kind) else [*bases, own_class]
    return [name for each_class in classes for name in get_annotations(each_class)]


def _field_spec(hint: Any) -> tuple[Any, ...]:  # a hint may be anything
    """Return the type of a field, and its shape if it is an array."""
    if get_origin(hint) is not Annotated:
        return (_SCALARS.get(hint, hint),)
    annotated_type, *metadata = get_args(hint)
    if annotated_type in _SCALARS:  # `Int32`, for example
        return tuple(metadata)
    # An array of the shape in the metadata; a dtype there is that of its elements.
    dtypes = [item for item in metadata if isinstance(item, np.dtype)]
    shape = next(item for item in metadata if not isinstance(item, np.dtype))
    return (
        dtypes[0] if dtypes else _element_type(annotated_type),
        shape if isinstance(shape, tuple) else (shape,),
    )


def _element_type(array: Any) -> Any:  # any hint of an array
    if get_origin(array) is Records:
        return dtype_of(get_args(array)[0])
    # From numpy 2.5 on, NDArray is an alias with one parameter; before, it is an ndarray of shape and dtype.
    dtype_hint = array if get_origin(array) is NDArray else get_args(array)[1]
    [scalar_type] = get_args(dtype_hint)
    return scalar_type


def record(*fields: Any) -> Dtype:  # any field specification of numpy
    """Return a dtype of `(name, type[, shape])` fields; a bare name is an int64. Raises `ValueError`."""
    specs = [(field, np.int64) if isinstance(field, str) else field for field in fields]
    return check_field_names(np.dtype(specs))


def check_field_names(dtype: Dtype) -> Dtype:
    """Return the dtype; raise `ValueError` if plain Python cannot read all of its fields as attributes."""
    # For a field with the name of an attribute of `np.void`, plain Python reads that attribute.
    clashing = [name for name in dtype.names or () if hasattr(Record, name)]
    if clashing:
        raise ValueError(f"fields {', '.join(clashing)}: numpy's records have attributes of these names")
    return dtype


@overload
def records(shape: int, dtype: type[R]) -> Records[R]: ...
@overload
def records(shape: tuple[int, int], dtype: type[R]) -> RecordTable[R]: ...
@overload
def records(shape: int | Sequence[int], dtype: Dtype) -> Any: ...  # of unknown fields
def records(shape: int | Sequence[int], dtype: Any) -> Any:  # typed by the overloads
    """Return an array of zeroed records; for a dtype, type checkers accept any field name."""
    return as_records(zeros(shape, dtype if isinstance(dtype, np.dtype) else dtype_of(dtype)))


def as_records(array: NDArray[Any]) -> Any:  # records of unknown fields
    """Return a structured array as `Records`, without a copy."""
    return array.view((Record, array.dtype), Records)


def records_from_rows(kind: type[R], rows: Sequence[tuple[int, ...]]) -> Records[R]:
    """Return records of a class, one for each tuple of values in the order of its fields."""
    array = records(len(rows), kind)
    array[:] = list(rows)
    return array


def one_record(kind: type[R]) -> R:
    return records(1, kind)[0]


def with_arrays(state: R, **arrays: object) -> R:
    replaced: R = cast(Any, state)._replace(**arrays)  # a `NamedTuple`, which no Protocol can express
    return replaced


def zeros(shape: int | Sequence[int], dtype: Any) -> NDArray[Any]:  # of any type that `np.dtype` accepts
    """Return an array of zeros aligned to a cache line, so that a record of one line never straddles two."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    buffer = np.zeros(size + CACHE_LINE_BYTES - 1, np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE_BYTES
    array: NDArray[Any] = buffer[start : start + size].view(kind).reshape(shape)
    return array


def sparse_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:  # of any type of elements
    """Return an array of zeros whose pages take neither time nor memory before they are written.

    `np.zeros` clears memory that the process has used before.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _MIN_MAPPED_BYTES:
        return zeros(shape, dtype)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(mapping, np.uint8).view(dtype).reshape(shape)
