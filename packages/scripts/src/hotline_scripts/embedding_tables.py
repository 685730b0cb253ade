"""Map embedding tables to one dense key space: tables by name, then a key for each row.

A row of more values than an RPC's row may have is several keys, one after the other. So is a row in designs
whose packets have no rows: a key for each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.optimisers import Optimiser, OptimiserError, TableOptimiser, parse
from foundation.protocol.header import padded_dim
from foundation.protocol.rows import MAX_DIM, RowRange, split_row
from foundation.text import show
from hosts.keys import KeySpace
from nativekit.records import Words

MAX_PARAMETERS = 2**31 - 1
DEFAULT_SCALE = 2.0**16
"""Fixed-point units of 1.0: values from -32,768 to 32,768 in steps of 0.000015."""


class TableError(HotlineError):
    """A table that is invalid, unknown, or differs from the other workers' declaration."""


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """A table of `rows` × `dim` values. 1.0 is `scale` units; `first` is its first key.

    With an optimiser, values are float32, and gradients have `scale` units. A row has `keys_of_row` keys,
    each with `width` values; values after the row's last one are padding.
    """

    name: str
    rows: int
    dim: int
    scale: float
    first: int
    keys_of_row: int
    width: int
    optimiser: Optimiser | None = None

    @property
    def size(self) -> int:
        """Number of its keys."""
        return self.rows * self.keys_of_row

    @property
    def values_of_key(self) -> int:
        """Number of values of a key without padding, as far as all keys of a row have equally many."""
        return self.dim if self.keys_of_row == 1 else self.width

    def positions(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the keys of `rows` [n], row by row [n * keys_of_row]."""
        first_keys = np.asarray(rows, np.int64) * self.keys_of_row + self.first
        if self.keys_of_row == 1:
            return first_keys
        return (first_keys[:, None] + np.arange(self.keys_of_row)).reshape(-1)

    def pad(self, words: Words) -> Words:
        """Return the words of rows [n * dim] with padding after each row."""
        padded_width = self.keys_of_row * self.width
        if padded_width == self.dim:
            return words
        padded = np.zeros((len(words) // self.dim, padded_width), np.uint32)
        padded[:, : self.dim] = words.reshape(-1, self.dim)
        return padded.reshape(-1)

    def strip(self, words: Words) -> Words:
        """Return the words of padded rows without their padding [n * dim]."""
        padded_width = self.keys_of_row * self.width
        if padded_width == self.dim:
            return words
        return np.ascontiguousarray(words.reshape(-1, padded_width)[:, : self.dim]).reshape(-1)

    def __str__(self) -> str:
        suffix = "" if self.optimiser is None else f" with {self.optimiser}"
        return f"{self.rows:,} rows of {self.dim} at scale {self.scale:.10g}{suffix}"


class EmbeddingTables(dict[str, EmbeddingTable]):
    @property
    def space(self) -> KeySpace:
        """The key space of all tables."""
        ranges: list[RowRange] = []
        for table in self.values():
            if not ranges or ranges[-1].dim != table.width:
                ranges.append(RowRange(table.first, table.width))
        return KeySpace(sum(table.size for table in self.values()), None, tuple(ranges))

    def in_design(self, has_rows: bool) -> EmbeddingTables:
        """Return the tables in a design whose packets have rows, or none."""
        return _place_tables(self.values(), MAX_DIM if has_rows else 1)

    def find_table(self, name: str | None) -> EmbeddingTable:
        """Return a table by name, or for None the only table; otherwise raise `TableError` with all names."""
        if name is None and len(self) == 1:
            return next(iter(self.values()))
        if name is None:
            raise TableError(
                f"expected the name of a table, got None, and there are {len(self)}: {', '.join(self)}"
            )
        if not isinstance(name, str) or name not in self:
            raise TableError(f"unknown table {show(name)}; expected one of {', '.join(self)}")
        return self[name]

    @property
    def optimisers(self) -> tuple[TableOptimiser, ...]:
        """The optimisers of all tables, in the order of their parameters; empty if no table has one."""
        if all(table.optimiser is None for table in self.values()):
            return ()
        return tuple(
            TableOptimiser(first=table.first, scale=table.scale, optimiser=table.optimiser)
            for table in self.values()
        )

    def to_declaration(self) -> dict[str, list[float | str]]:
        """Return name -> [rows, dim, scale, and the optimiser if any], which `parse_declaration` reads."""
        return {
            table.name: [
                table.rows,
                table.dim,
                table.scale,
                *([] if table.optimiser is None else [str(table.optimiser)]),
            ]
            for table in self.values()
        }

    def describe_difference(self, other_tables: EmbeddingTables) -> str | None:
        if list(self) != list(other_tables):
            return f"tables {', '.join(self)}; the others have declared {', '.join(other_tables)}"
        for name, table in self.items():
            # The text lacks only what follows from all tables.
            if str(table) != str(other_tables[name]):
                return f"table {name}: {table}; the others have declared {other_tables[name]}"
        return None


def parse_declaration(declaration: object) -> EmbeddingTables:
    """Make tables from the JSON of `EmbeddingTables.to_declaration`; raise `TableError` if it is invalid."""
    if not isinstance(declaration, dict):
        raise TableError(f"expected tables with a name and a size each, got {declaration!r}")
    for name, fields in declaration.items():
        if not isinstance(fields, list) or len(fields) not in (3, 4):
            raise TableError(
                f"table {name!r}: expected rows, dim, scale and optionally an optimiser, got {fields!r}"
            )
    return make_tables(
        {name: (fields[0], fields[1]) for name, fields in declaration.items()},
        {name: fields[2] for name, fields in declaration.items()},
        {name: fields[3] for name, fields in declaration.items() if fields[3:]},
    )


def make_tables(
    sizes: Mapping[str, tuple[int, int]],
    scale: float | Mapping[str, float] = DEFAULT_SCALE,
    optimiser: str | Mapping[str, str | None] | None = None,
) -> EmbeddingTables:
    if not isinstance(sizes, Mapping) or not sizes:
        raise TableError(f"tables: expected at least one as name: (rows, dim), got {show(sizes)}")
    for name in sizes:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise TableError(f"tables: expected a printable text as a table's name, got {show(name)}")
    for argument, value in (("scale", scale), ("optimiser", optimiser)):
        if isinstance(value, Mapping) and set(value) - set(sizes):
            unknown_names = ", ".join(sorted(map(str, set(value) - set(sizes))))
            raise TableError(
                f"{argument} of unknown table {unknown_names}; expected one of {', '.join(sizes)}"
            )
    tables, value_count = list[EmbeddingTable](), 0
    for name in sorted(sizes):
        table = _make_table(name, sizes[name], scale)
        optimiser_text = optimiser.get(name) if isinstance(optimiser, Mapping) else optimiser
        if optimiser_text is not None:
            table = replace(table, optimiser=_parse_optimiser(name, optimiser_text))
        tables.append(table)
        value_count += table.rows * table.dim
        if value_count > MAX_PARAMETERS:
            raise TableError(
                f"table {name}: expected at most {MAX_PARAMETERS:,} values up to this table, "
                f"got {show(value_count)}"
            )
    return _place_tables(tables, MAX_DIM)


def _place_tables(tables: Iterable[EmbeddingTable], max_dim: int) -> EmbeddingTables:
    """Return the tables, in order, with the keys of rows of at most `max_dim` values."""
    placed, first = EmbeddingTables(), 0
    for table in tables:
        keys_of_row, dim_of_key = split_row(table.dim, max_dim)
        width = padded_dim(dim_of_key)
        placed[table.name] = replace(table, first=first, keys_of_row=keys_of_row, width=width)
        first += placed[table.name].size
    return placed


def _make_table(name: str, size: object, scale: float | Mapping[str, float]) -> EmbeddingTable:
    if not isinstance(size, tuple | list) or len(size) != 2 or not all(map(_is_count, size)):
        raise TableError(f"table {name}: expected (rows, dim), whole numbers above 0, got {show(size)}")
    table_scale = scale.get(name, DEFAULT_SCALE) if isinstance(scale, Mapping) else scale
    is_number = isinstance(table_scale, int | float | np.integer | np.floating)
    try:
        is_valid = is_number and not isinstance(table_scale, bool) and isfinite(table_scale)
    except OverflowError:  # an integer beyond floats
        is_valid = False
    if not is_valid or table_scale <= 0:
        raise TableError(f"table {name}: expected a finite scale above 0, got {show(table_scale)}")
    return EmbeddingTable(name, int(size[0]), int(size[1]), float(table_scale), 0, 1, 1)


def _parse_optimiser(name: str, text: object) -> Optimiser:
    if not isinstance(text, str):
        raise TableError(f"optimiser of table {name}: expected a text, got {show(text)}")
    try:
        return parse(text)
    except OptimiserError as error:
        raise TableError(f"optimiser of table {name}: {error}") from None


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) > 0
