"""The dims of the rows that a log's keys name: one for all, or one for each table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from foundation.errors import DataError
from foundation.logs.access.columns import join_names
from foundation.protocol.header import DIMS, padded_dim
from foundation.settings import Strict

MAX_DIM = DIMS[-1]


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
            raise DataError(f"--dims: expected {what}=DIM with a dim from 1 to {MAX_DIM}, got {part!r}")
        if dims.setdefault(name, int(number)) != int(number):
            raise DataError(f"--dims: expected one dim of {name}, got {dims[name]} and {number}")
    return dims


RowDim: TypeAlias = Annotated[
    int | None,
    Field(ge=1, le=MAX_DIM, description="Values of a row, such as those of an embedding; None means 1."),
]
TableDims: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(as_parts),
    Field(
        description="Values of a row by table of the log, such as users=16,items=64; other tables have rows "
        "of --dim. May be repeated."
    ),
]


class RowSettings(Strict):
    dim: RowDim = None
    dims: TableDims = ()

    @property
    def has_dims(self) -> bool:
        return self.dim is not None or bool(self.dims)

    @property
    def padded_dim(self) -> int:
        """The dim of RPCs for rows of tables that `dims` does not name."""
        return padded_dim(self.dim or 1)

    @property
    def min_dim(self) -> int:
        """The smallest dim that a row may have: that of a table, or of those that `dims` does not name."""
        return min((self.dim or 1, *self._named))

    @property
    def max_dim(self) -> int:
        return max((self.dim or 1, *self._named))

    @property
    def _named(self) -> tuple[int, ...]:
        return tuple(parse_dims(self.dims, "TABLE").values())

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

    def dims_of_keys(self, tables: Sequence[str], table_of: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the dim of RPCs for each key of a log, given the keys' tables; raise `DataError`."""
        of_tables = np.array(self.dims_of_tables(tables), np.int64)
        if len(of_tables) == 1:
            return np.full(len(table_of), of_tables[0])
        dims: NDArray[np.int64] = of_tables[table_of]
        return dims
