"""Convert rows of a table to a block of accesses: each key of a row is one access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.access.block import Block, Keys, Tables, key_in_table
from foundation.logs.access.columns import Columns
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

ReportBadRow = Callable[[int, str, str], None]  # row, problem, expected


@dataclass(frozen=True)
class Layout:
    columns: Columns
    kinds: dict[str, Kind]
    separators: dict[str, str] = field(default_factory=dict)
    """Separator of keys within a field, by column: such a field is a list."""

    @property
    def is_sparse(self) -> bool:
        """Whether a row may lack a key: there are several key columns, or one that holds lists."""
        return len(self.columns.key) > 1 or bool(self.separators)

    @property
    def has_tables(self) -> bool:
        return len(self.columns.key) > 1 or self.columns.table is not None


def layout_of(
    columns: Columns,
    sample: pl.DataFrame,
    separators: dict[str, str],
    key_kinds: dict[str, Kind] | None = None,
) -> Layout:
    kinds: dict[str, Kind] = {}
    for name in columns.key:
        values = _split(sample[name], separators[name]) if name in separators else sample[name]
        kinds[name] = (key_kinds or {}).get(name) or kind_of_keys(_flat(values))
    for role, name in columns.others.items():
        kinds[name] = {"iteration": INTEGER, "worker": INTEGER, "op": OPERATION, "table": TEXT}.get(
            role
        ) or kind_of_times(sample[name])
    return Layout(columns, kinds, separators)


def describe(format: str, layout: Layout) -> str:
    keys, others = layout.columns.key, layout.columns.others
    shown = ", ".join(keys) if len(keys) <= 4 else f"{keys[0]} to {keys[-1]}"
    suffix = f", {len(keys)} tables" if len(keys) > 1 else ""
    parts = [f"keys in {shown}{suffix}", *(f"{role} in {name}" for role, name in others.items())]
    return f"{format}; {one_line(', '.join(parts))}"


class _Cells(NamedTuple):
    """Values of a column: one per row, or several in a column of lists, or none where it may be missing."""

    rows: NDArray[np.int64]  # row of each value
    raw: pl.Series
    values: pl.Series


def to_block(
    frame: pl.DataFrame, layout: Layout, tables: Tables, report: ReportBadRow, first_row: int
) -> Block:
    cells = {name: _cells_of(frame[name], layout, name) for name in layout.columns.names}
    wrong = np.zeros(frame.height, np.bool_)
    for name, each in cells.items():
        at = np.flatnonzero(each.values.is_null().to_numpy())
        rows, first = np.unique(each.rows[at], return_index=True)
        for row, index in zip(rows.tolist(), at[first].tolist(), strict=True):
            if not wrong[row]:
                report(row, f"column {name} is {_format_value(each.raw[index])}", layout.kinds[name].expected)
        wrong[rows] = True
    if wrong.any():
        cells = {name: _without(each, wrong) for name, each in cells.items()}
    return _assemble(cells, frame.height, first_row, layout, tables)


def has_bad_rows(frame: pl.DataFrame, layout: Layout) -> bool:
    return any(_cells_of(frame[name], layout, name).values.null_count() for name in layout.columns.names)


def _cells_of(values: pl.Series, layout: Layout, name: str) -> _Cells:
    if name in layout.separators:
        values = _split(values, layout.separators[name])
    if values.dtype == pl.List:
        lengths = values.list.len().fill_null(0).to_numpy()
        rows, raw = np.repeat(np.arange(len(values)), lengths), _flat(values)
    elif name in layout.columns.key and layout.is_sparse:
        rows, raw = np.flatnonzero(values.is_not_null().to_numpy()), values.drop_nulls()
    else:
        rows, raw = np.arange(len(values)), values
    return _Cells(rows, raw, layout.kinds[name].convert(raw))


def _flat(values: pl.Series) -> pl.Series:
    if values.dtype != pl.List:
        return values
    return values.filter(values.list.len() > 0).explode()


def _split(values: pl.Series, separator: str) -> pl.Series:
    return values.fill_null("").str.split(separator).list.eval(pl.element().filter(pl.element() != ""))


def _without(cells: _Cells, wrong: NDArray[np.bool_]) -> _Cells:
    good = ~wrong[cells.rows]
    return _Cells(cells.rows[good], cells.raw, cells.values.filter(pl.Series(good)))


def _assemble(
    cells: Mapping[str, _Cells], height: int, first_row: int, layout: Layout, tables: Tables
) -> Block:
    columns = layout.columns
    keys = [_keys_of(cells[name], name, layout) for name in columns.key]
    tables_of = [tables.index(name) for name in columns.key] if len(keys) > 1 else [0]
    at = np.concatenate([cells[name].rows for name in columns.key])
    order = np.argsort(at, kind="stable") if len(keys) > 1 else slice(None)
    at, found = at[order], np.concatenate(keys)[order]
    table = None
    if len(keys) > 1:
        table = np.repeat(np.array(tables_of, np.uint16), [len(each) for each in keys])[order]

    def per_access(name: str) -> NDArray[np.generic]:
        values = np.zeros(height, cells[name].values.to_numpy().dtype)
        values[cells[name].rows] = cells[name].values.to_numpy()
        found: NDArray[np.generic] = values[at]
        return found

    if columns.table is not None:
        names = pl.DataFrame({"row": cells[columns.table].rows, "name": cells[columns.table].values})
        found, table = _in_named_tables(found, at, names, height, tables)
    ordered_by = columns.iteration or columns.time
    group = at.astype(np.uint64) + np.uint64(first_row)
    if columns.iteration is not None:
        group = (
            np.zeros_like(group) if columns.worker is None else per_access(columns.worker).astype(np.uint64)
        )
    return Block(
        found,
        table,
        None if ordered_by is None else sortable(per_access(ordered_by)),
        group,
        None if columns.op is None else per_access(columns.op).astype(np.bool_),
    )


def _keys_of(cells: _Cells, name: str, layout: Layout) -> Keys:
    keys = cells.values.to_numpy().astype(np.uint64, copy=False)
    return key_in_table(keys, name) if len(layout.columns.key) > 1 else keys


def _in_named_tables(
    keys: Keys, at: NDArray[np.int64], names: pl.DataFrame, height: int, tables: Tables
) -> tuple[Keys, NDArray[np.uint16]]:
    of_row = np.zeros(height, np.uint16)
    found = np.empty_like(keys)
    for (name,), rows in names.group_by("name", maintain_order=True):
        of_row[rows["row"].to_numpy()] = tables.index(str(name))
    table = of_row[at]
    for index in np.unique(table).tolist():
        mask = table == index
        found[mask] = key_in_table(keys[mask], tables.names[index])
    return found, table


def _format_value(value: object) -> object:
    return "empty" if value is None or value == "" else repr(value) if isinstance(value, str) else value
