"""The dims of the rows that a log's keys name: one for all, one for each table, or those of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator
from typing_extensions import Self

from foundation.errors import DataError
from foundation.logs.access.access_settings import LogFormatSettings
from foundation.logs.access.column_roles import join_names, parse_columns
from foundation.protocol.header import padded_dim
from foundation.protocol.rows import MAX_DIM, check_dim, describe_long_row
from foundation.settings import Strict
from foundation.text import pluralize

_PADDED = np.array([0, *(padded_dim(dim) for dim in range(1, MAX_DIM + 1))], np.int64)
"""Dim of RPCs for a row of each number of values."""


def as_parts(value: object) -> object:
    """Return the parts of `A=1,B=2`, or of several such texts."""
    texts = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(texts, tuple | list) or not all(isinstance(text, str) for text in texts):
        return texts
    return tuple(part for text in texts for part in text.split(","))


def parse_dims(parts: Sequence[str], what: str) -> dict[str, int]:
    """Return the dims of `NAME=DIM` by name; `what` says what has a name. Raises `DataError`."""
    dims: dict[str, int] = {}
    for part in parts:
        name, equals, number = part.rpartition("=")
        name, number = name.strip(), number.strip()
        is_number = number.isascii() and number.isdecimal()
        if not equals or not name or not is_number or not 1 <= int(number) <= MAX_DIM:
            rule = f"; {describe_long_row(int(number))}" if is_number and int(number) > MAX_DIM else ""
            raise DataError(f"--dims: expected {what}=DIM with a dim from 1 to {MAX_DIM}, got {part!r}{rule}")
        if dims.setdefault(name, int(number)) != int(number):
            raise DataError(f"--dims: expected one dim of {name}, got {dims[name]} and {number}")
    return dims


def padded_dims(dims: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return these dims as RPCs carry them."""
    padded: NDArray[np.int64] = _PADDED[dims]
    return padded


def check_one_source_of_dims(column: str | None, dim: int | None, dims: Sequence[str]) -> None:
    """Raise `DataError` if both a column of the log and options say the dims of rows."""
    if column is not None and (dim is not None or dims):
        options = f"--dims {','.join(dims)}" if dims else f"--dim {dim}"
        raise DataError(f"{options}: expected the dims of the column {column} alone (--columns dim={column})")


RowDim: TypeAlias = Annotated[
    int | None,
    Field(ge=1, description=f"Values of a row, such as of an embedding, at most {MAX_DIM}; None means 1."),
    AfterValidator(check_dim),
]
TableDims: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(as_parts),
    Field(
        description="Values of a row by table of the log, such as users=16,items=64; other tables have rows "
        "of --dim. May be repeated."
    ),
]


class KeysOfLog(Protocol):
    """The distinct keys of a log that was read (`steps.Steps`)."""

    @property
    def tables(self) -> tuple[str, ...]: ...

    @property
    def table_of(self) -> NDArray[np.uint16]: ...

    @property
    def dim_of(self) -> NDArray[np.uint8] | None: ...


class RowSettings(Strict):
    dim: RowDim = None
    dims: TableDims = ()
    _dims_of_log: tuple[int, ...] = PrivateAttr(())
    """Distinct dims of the log's rows, after it was read."""

    @property
    def has_dims(self) -> bool:
        return self.dim is not None or bool(self.dims or self._dims_of_log)

    @property
    def padded_dim(self) -> int:
        """The dim of RPCs for rows of tables that `dims` does not name."""
        return padded_dim(self.dim or 1)

    @property
    def min_dim(self) -> int:
        """The smallest dim that a row may have: that of a table, or of those that `dims` does not name."""
        return min(self._dims_of_log or (self.dim or 1, *self._named))

    @property
    def max_dim(self) -> int:
        return max(self._dims_of_log or (self.dim or 1, *self._named))

    @property
    def dims_of_log(self) -> tuple[int, ...]:
        """Distinct dims of the log's rows; () before it was read, or if all have the dim `dim`."""
        return self._dims_of_log

    @property
    def are_dims_known(self) -> bool:
        """Whether some row has `min_dim` values: before a log is read, `dims` may name all its tables."""
        return not self.dims or bool(self._dims_of_log)

    def describe_dims(self, *dims: int) -> str:
        """Return these dims of rows in words, each with a table that `dims` gives it."""
        return " and ".join(map(self._describe_dim, sorted({*dims})))

    def _describe_dim(self, dim: int) -> str:
        if not self.dims:
            return pluralize(dim, "value")
        named = parse_dims(self.dims, "TABLE").items()
        tables = [(own, name) for name, own in named if padded_dim(own) == padded_dim(dim)]
        if not tables:
            return f"{pluralize(dim, 'value')} (tables that --dims does not name)"
        own, name = min(tables)
        return f"{pluralize(own, 'value')} (table {name})"

    @property
    def _named(self) -> tuple[int, ...]:
        return tuple(parse_dims(self.dims, "TABLE").values())

    def with_dims_of_log(self, dims: Sequence[int]) -> Self:
        """Return the settings for a log whose rows have these dims, by a column or by table."""
        settings = self.model_copy()
        settings._dims_of_log = tuple(dims)
        return settings

    def unpadded_dims(self, tables: Sequence[str]) -> tuple[int, ...]:
        """Return the dim of the rows of each table, or of a log without tables; raise `DataError`."""
        named = parse_dims(self.dims, "TABLE")
        for name in named:
            if name not in tables:
                names = f"a table of the log ({join_names(tables)})" if tables else "--dim DIM, no tables"
                raise DataError(f"--dims {name}={named[name]}: expected {names}, got {name!r}")
        return tuple(named.get(name, self.dim or 1) for name in tables or ("",))

    def dims_of_tables(self, tables: Sequence[str]) -> tuple[int, ...]:
        """Return `unpadded_dims` as RPCs carry them."""
        return tuple(map(padded_dim, self.unpadded_dims(tables)))

    def unpadded_dims_of_keys(self, log: KeysOfLog) -> NDArray[np.int64]:
        """Return the values of the row of each key of a log; raise `DataError`."""
        if log.dim_of is not None:
            return log.dim_of.astype(np.int64)
        of_tables = np.array(self.unpadded_dims(log.tables), np.int64)
        if len(of_tables) == 1:
            return np.full(len(log.table_of), of_tables[0])
        dims: NDArray[np.int64] = of_tables[log.table_of]
        return dims

    def dims_of_keys(self, log: KeysOfLog) -> NDArray[np.int64]:
        """Return `unpadded_dims_of_keys` as RPCs carry them."""
        return padded_dims(self.unpadded_dims_of_keys(log))


class RowLogSettings(LogFormatSettings, RowSettings):
    """How a log is read whose keys name rows: their dims are options, or in a column of the log."""

    @model_validator(mode="after")
    def _check_dims(self) -> Self:
        column = None if self.all_columns is None else parse_columns(self.all_columns).dim
        check_one_source_of_dims(column, self.dim, self.dims)
        return self
