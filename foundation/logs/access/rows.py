"""Convert rows of a table to a block of accesses: each key of a row is one access.

A column's values are of a `Kind`; values that cannot be converted become null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.access.block import (
    INTEGER_EXPECTED,
    KEY_EXPECTED,
    AccessBlock,
    AccessTables,
    Keys,
    key_in_table,
)
from foundation.logs.access.columns import AccessColumns
from foundation.logs.columns import TRANSFERS
from foundation.protocol.header import NO_KEY
from foundation.text import one_line

_SIGN = np.uint64(1 << 63)  # bit of a 64-bit float
_DATETIMES = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ", "%Y-%m-%d")
_TEXT_SEED = 0x686F746C696E65  # "hotline" in ASCII; another seed would change the keys of texts
_MAX_LISTED_KEYS = 4  # number of key columns up to which a description lists all of them
ReportBadRow = Callable[[int, str, str], None]  # row, problem, expected


class Kind(NamedTuple):
    expected: str
    convert: Callable[[pl.Series], pl.Series]


def _to_integers(values: pl.Series) -> pl.Series:
    """Return values as UInt64; a float that is not a whole number becomes null."""
    if values.dtype.is_float():
        values = values.set(values != values.floor(), None)
    return values.cast(pl.UInt64, strict=False)


def _to_integer_keys(values: pl.Series) -> pl.Series:
    integers = _to_integers(values)
    return integers.set(integers == NO_KEY, None)


def _hash_text_keys(values: pl.Series) -> pl.Series:
    texts = values.cast(pl.String)
    hashed = texts.hash(_TEXT_SEED)
    return pl.select(pl.when(texts.is_not_null()).then(hashed)).to_series()


def _parse_hexadecimal(values: pl.Series) -> pl.Series:
    return values.str.to_integer(base=16, dtype=pl.UInt64, strict=False)


def _to_numbers(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite(), None)


def _to_microseconds(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        parsed = [
            pl.lit(values).str.to_datetime(pattern, time_unit="us", strict=False) for pattern in _DATETIMES
        ]
        values = pl.select(pl.coalesce(parsed)).to_series()
    return values.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)


def _to_pull_flags(values: pl.Series) -> pl.Series:
    is_transfer = values.is_in(list(TRANSFERS))
    return pl.select(pl.when(is_transfer).then(values == "pull")).to_series()


INTEGER = Kind(INTEGER_EXPECTED, _to_integers)
INTEGER_KEY = Kind(KEY_EXPECTED, _to_integer_keys)
TEXT_KEY = Kind("a text", _hash_text_keys)
HEX_KEY = Kind("a hexadecimal number of up to 64 bits", _parse_hexadecimal)
NUMBER = Kind("a number", _to_numbers)
DATETIME = Kind("a date and time", _to_microseconds)
TEXT = Kind("a name", lambda values: values.cast(pl.String))
OPERATION = Kind(" or ".join(TRANSFERS), _to_pull_flags)


def kind_of_keys(sample: pl.Series) -> Kind:
    if sample.dtype.is_numeric():
        return INTEGER_KEY
    texts = sample.drop_nulls().str.strip_chars().str.strip_prefix("+")
    non_integers = texts.str.contains(r"^\d+$").not_().sum()
    # If at least half are integers, the others are errors.
    return INTEGER_KEY if 2 * non_integers <= len(texts) else TEXT_KEY


def kind_of_times(sample: pl.Series) -> Kind:
    if sample.dtype.is_temporal():
        return DATETIME
    if sample.dtype != pl.String:
        return NUMBER
    return DATETIME if DATETIME.convert(sample).count() > NUMBER.convert(sample).count() else NUMBER


def sortable(values: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Return integers that sort as these numbers do."""
    if values.dtype == np.uint64:
        return values.astype(np.uint64, copy=False)
    # The bits of positive floats sort as they are, those of negative ones in reverse.
    bits = values.astype(np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


@dataclass(frozen=True)
class Layout:
    columns: AccessColumns
    kinds: dict[str, Kind]
    separators: dict[str, str] = field(default_factory=dict)
    """Separator of keys within a field, by column: such a field is a list."""

    @property
    def is_sparse(self) -> bool:
        """Whether a row may lack a key: there are several key columns, or one that holds lists."""
        return len(self.columns.key) > 1 or bool(self.separators)


def layout_of(
    columns: AccessColumns,
    sample: pl.DataFrame,
    separators: dict[str, str],
    key_kinds: dict[str, Kind] | None = None,
) -> Layout:
    kinds: dict[str, Kind] = {}
    for name in columns.key:
        values = _split(sample[name], separators[name]) if name in separators else sample[name]
        kinds[name] = (key_kinds or {}).get(name) or kind_of_keys(_flatten(values))
    for role, name in columns.others.items():
        kinds[name] = {"iteration": INTEGER, "worker": INTEGER, "op": OPERATION, "table": TEXT}.get(
            role
        ) or kind_of_times(sample[name])
    return Layout(columns, kinds, separators)


class TableLog:
    """A log whose rows have a layout."""

    layout: Layout
    format: str

    @property
    def description(self) -> str:
        keys, other_columns = self.layout.columns.key, self.layout.columns.others
        key_names = ", ".join(keys) if len(keys) <= _MAX_LISTED_KEYS else f"{keys[0]} to {keys[-1]}"
        suffix = f", {len(keys)} tables" if len(keys) > 1 else ""
        roles = (f"{role} in {name}" for role, name in other_columns.items())
        return f"{self.format}; {one_line(', '.join([f'keys in {key_names}{suffix}', *roles]))}"

    @property
    def has_batches(self) -> bool:
        return self.layout.columns.iteration is not None


class _ColumnCells(NamedTuple):
    """Values of a column: one per row, several in a column of lists, or none where a value may be missing."""

    rows: NDArray[np.int64]  # row of each value
    raw: pl.Series  # values before conversion, for messages about bad rows
    values: pl.Series


def to_block(
    frame: pl.DataFrame, layout: Layout, tables: AccessTables, report: ReportBadRow, first_row: int
) -> AccessBlock:
    cells = {name: _cells_of(frame[name], layout, name) for name in layout.columns.names}
    is_bad = np.zeros(frame.height, np.bool_)
    for name, cells_of_column in cells.items():
        bad_positions = np.flatnonzero(cells_of_column.values.is_null().to_numpy())
        rows, first_positions = np.unique(cells_of_column.rows[bad_positions], return_index=True)
        for row, index in zip(rows.tolist(), bad_positions[first_positions].tolist(), strict=True):
            if not is_bad[row]:
                report(
                    row,
                    f"column {name} is {_format_value(cells_of_column.raw[index])}",
                    layout.kinds[name].expected,
                )
        is_bad[rows] = True
    if is_bad.any():
        cells = {name: _drop_bad_rows(cells_of_column, is_bad) for name, cells_of_column in cells.items()}
    return _assemble_block(cells, frame.height, first_row, layout, tables)


def has_bad_rows(frame: pl.DataFrame, layout: Layout) -> bool:
    return any(_cells_of(frame[name], layout, name).values.null_count() for name in layout.columns.names)


def _cells_of(values: pl.Series, layout: Layout, name: str) -> _ColumnCells:
    if name in layout.separators:
        values = _split(values, layout.separators[name])
    if values.dtype == pl.List:
        lengths = values.list.len().fill_null(0).to_numpy()
        rows, raw = np.repeat(np.arange(len(values)), lengths), _flatten(values)
    elif name in layout.columns.key and layout.is_sparse:
        rows, raw = np.flatnonzero(values.is_not_null().to_numpy()), values.drop_nulls()
    else:
        rows, raw = np.arange(len(values)), values
    return _ColumnCells(rows, raw, layout.kinds[name].convert(raw))


def _flatten(values: pl.Series) -> pl.Series:
    if values.dtype != pl.List:
        return values
    return values.filter(values.list.len() > 0).explode()


def _split(values: pl.Series, separator: str) -> pl.Series:
    return values.fill_null("").str.split(separator).list.eval(pl.element().filter(pl.element() != ""))


def _drop_bad_rows(cells: _ColumnCells, is_bad: NDArray[np.bool_]) -> _ColumnCells:
    is_good = ~is_bad[cells.rows]
    return _ColumnCells(cells.rows[is_good], cells.raw, cells.values.filter(pl.Series(is_good)))


def _assemble_block(
    cells: Mapping[str, _ColumnCells], height: int, first_row: int, layout: Layout, tables: AccessTables
) -> AccessBlock:
    columns = layout.columns
    keys_by_column = [_keys_of(cells[name], name, layout) for name in columns.key]
    has_several_columns = len(keys_by_column) > 1  # a table each
    row_of_access = np.concatenate([cells[name].rows for name in columns.key])
    order = np.argsort(row_of_access, kind="stable") if has_several_columns else slice(None)
    row_of_access, access_keys = row_of_access[order], np.concatenate(keys_by_column)[order]
    table_of_access = None
    if has_several_columns:
        table_indices = np.array([tables.index(name) for name in columns.key], np.uint16)
        table_of_access = np.repeat(table_indices, [len(keys) for keys in keys_by_column])[order]

    def per_access(name: str) -> NDArray[np.generic]:
        values = np.zeros(height, cells[name].values.to_numpy().dtype)
        values[cells[name].rows] = cells[name].values.to_numpy()
        access_values: NDArray[np.generic] = values[row_of_access]
        return access_values

    if columns.table is not None:
        names = pl.DataFrame({"row": cells[columns.table].rows, "name": cells[columns.table].values})
        access_keys, table_of_access = _map_to_named_tables(access_keys, row_of_access, names, height, tables)
    ordered_by = columns.iteration or columns.time
    group = row_of_access.astype(np.uint64) + np.uint64(first_row)
    if columns.iteration is not None:  # a mini-batch is an iteration of a worker, not a row
        group = (
            np.zeros_like(group) if columns.worker is None else per_access(columns.worker).astype(np.uint64)
        )
    return AccessBlock(
        keys=access_keys,
        tables=table_of_access,
        order=None if ordered_by is None else sortable(per_access(ordered_by)),
        group=group,
        pulls=None if columns.op is None else per_access(columns.op).astype(np.bool_),
    )


def _keys_of(cells: _ColumnCells, name: str, layout: Layout) -> Keys:
    keys = cells.values.to_numpy().astype(np.uint64, copy=False)
    return key_in_table(keys, name) if len(layout.columns.key) > 1 else keys


def _map_to_named_tables(
    keys: Keys, row_of_access: NDArray[np.int64], names: pl.DataFrame, height: int, tables: AccessTables
) -> tuple[Keys, NDArray[np.uint16]]:
    table_of_row = np.zeros(height, np.uint16)
    mapped_keys = np.empty_like(keys)
    for (name,), rows in names.group_by("name", maintain_order=True):
        table_of_row[rows["row"].to_numpy()] = tables.index(str(name))
    table_of_access = table_of_row[row_of_access]
    for index in np.unique(table_of_access).tolist():
        mask = table_of_access == index
        mapped_keys[mask] = key_in_table(keys[mask], tables.names[index])
    return mapped_keys, table_of_access


def _format_value(value: object) -> object:
    return "empty" if value is None or value == "" else repr(value) if isinstance(value, str) else value
