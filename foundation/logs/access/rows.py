"""Convert rows of a table to a block of accesses: each key of a row is one access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.access.block import AccessBlock, AccessTables, Keys, key_in_table
from foundation.logs.access.columns import AccessColumns
from foundation.logs.access.values import (
    INTEGER,
    OPERATION,
    TEXT,
    Kind,
    kind_of_keys,
    kind_of_times,
    sortable,
)
from foundation.text import one_line

_MAX_LISTED_KEYS = 4  # number of key columns up to which a description lists all of them
ReportBadRow = Callable[[int, str, str], None]  # row, problem, expected


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
