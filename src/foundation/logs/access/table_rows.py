"""Convert rows of a table to blocks of accesses: each key of a row is one access."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.access.block import AccessBlock, AccessLog, AccessTables, Keys, key_in_table
from foundation.logs.access.column_roles import AccessColumns, join_names
from foundation.logs.access.guess import ColumnProfile
from foundation.logs.access.kinds import (
    DIM,
    IN_BRACKETS,
    INTEGER,
    OPERATION,
    TEXT,
    TEXT_KEY,
    WEIGHT,
    Kind,
    kind_of_keys,
    kind_of_times,
    separator_of_lists,
    split_cells,
)
from foundation.text import one_line, pluralize

_SIGN = np.uint64(1 << 63)  # bit of a 64-bit float
_MAX_LISTED_KEYS = 4  # number of key columns up to which a description lists all of them
ReportBadRow = Callable[[int, str, str], None]  # row, problem, expected
_ACCESSES_AT_ONCE = 1 << 22
"""Accesses of a block up to which rows with weights are repeated at a time."""


def sortable(values: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Return integers that sort as these numbers do."""
    if values.dtype == np.uint64:
        return values.astype(np.uint64, copy=False)
    # The bits of positive floats sort as they are, those of negative ones in reverse.
    bits = values.astype(np.float64).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


@dataclass(frozen=True, slots=True)
class Layout:
    columns: AccessColumns
    kinds: dict[str, Kind]
    separators: dict[str, str] = field(default_factory=dict)
    """Separator of keys within a field, by column: such a field is a list."""
    left_out: tuple[str, ...] = ()
    """Columns without a role."""
    other_keys: tuple[str, ...] = ()
    """Columns without a role whose values could be keys."""

    @property
    def is_sparse(self) -> bool:
        """Whether a row may lack a key: there are several key columns, or one that holds lists."""
        return len(self.columns.key) > 1 or bool(self.separators)


def layout_of(
    columns: AccessColumns,
    sample: pl.DataFrame,
    separators: dict[str, str] | None = None,
    key_kinds: dict[str, Kind] | None = None,
) -> Layout:
    """Return the layout of rows like those of `sample`; other cells with lists of keys are looked for."""
    separators = dict(separators or {})
    kinds: dict[str, Kind] = {}
    for name in columns.key:
        values = sample[name]
        if name in columns.text:
            kinds[name] = TEXT_KEY
            continue
        if name not in separators and name not in (key_kinds or {}) and values.dtype == pl.String:
            cells = values.drop_nulls().str.strip_chars().to_list()
            if (separator := separator_of_lists(cells)) is not None:
                separators[name] = separator
        values = split_cells(values, separators[name]) if name in separators else values
        kinds[name] = (key_kinds or {}).get(name) or kind_of_keys(_flatten(values))
    for table in columns.key_tables:
        of_table = [name for name in columns.key if columns.table_of(name) == table]
        if any(kinds[name] == TEXT_KEY for name in of_table):  # a key has one number in all columns
            kinds.update(dict.fromkeys(of_table, TEXT_KEY))
    of_role = {
        "iteration": INTEGER, "worker": INTEGER, "op": OPERATION, "table": TEXT, "weight": WEIGHT, "dim": DIM,
    }  # fmt: skip
    for role, name in columns.others.items():
        kinds[name] = of_role.get(role) or kind_of_times(sample[name])
    left_out = tuple(name for name in sample.columns if name not in columns.names)
    other_keys = tuple(name for name in left_out if ColumnProfile(sample[name]).may_be_key)
    return Layout(columns, kinds, separators, left_out, other_keys)


class TableLog:
    """A log whose rows have a layout."""

    layout: Layout
    format: str

    @property
    def description(self) -> str:
        layout = self.layout
        keys, texts = (
            list(layout.columns.key),
            [name for name in layout.columns.key if layout.kinds[name] == TEXT_KEY],
        )
        key_names = ", ".join(keys) if len(keys) <= _MAX_LISTED_KEYS else f"{keys[0]} to {keys[-1]}"
        parts = [f"text keys in {key_names}" if keys == texts else f"keys in {key_names}"]
        if len(keys) > 1:
            shared = [f"{name} of {table}" for name, table in layout.columns.shared]
            tables = pluralize(len(layout.columns.key_tables), "table")
            parts.append(f"{tables} ({', '.join(shared)})" if shared else tables)
        if texts and keys != texts:
            parts.append(f"text in {', '.join(texts)}")
        parts += [f"{role} in {name}" for role, name in layout.columns.others.items()]
        parts += [
            f"lists in brackets in {name}" if text == IN_BRACKETS else f"cells of {name} divided at {text!r}"
            for name, text in layout.separators.items()
        ]
        left_out = f"; left out: {join_names(layout.left_out)}" if layout.left_out else ""
        return f"{self.format}; {one_line(', '.join(parts))}{left_out}"

    @property
    def has_batches(self) -> bool:
        return self.layout.columns.iteration is not None


def text_columns_of(log: AccessLog) -> dict[str, bool]:
    """Return whether each key column of a table is read as texts; an empty dict for a log of another kind."""
    if not isinstance(log, TableLog):
        return {}
    return {name: log.layout.kinds[name] == TEXT_KEY for name in log.layout.columns.key}


class _ColumnCells(NamedTuple):
    """Values of a column: one per row, several in a column of lists, or none where a value may be missing."""

    rows: NDArray[np.int64]  # row of each value
    raw: pl.Series  # values before conversion, for messages about bad rows
    values: pl.Series


class RowConverter:
    """Converts the rows of a log in their order, which it numbers."""

    def __init__(self, layout: Layout, tables: AccessTables, first_row: int) -> None:
        self._layout, self._tables, self._row = layout, tables, first_row

    def blocks(self, frame: pl.DataFrame, report: ReportBadRow | None = None) -> Iterator[AccessBlock] | None:
        """Return the blocks of a frame; without `report`, None if a row is bad."""
        layout = self._layout
        cells = {name: _cells_of(frame[name], layout, name) for name in layout.columns.names}
        if any(column.values.null_count() for column in cells.values()):
            if report is None:
                return None
            cells = _without_bad_rows(cells, frame.height, layout, report)
        if layout.columns.dim is not None:
            consistent = self._with_one_dim_per_key(cells, frame.height, report)
            if consistent is None:
                return None
            cells = consistent
        return self._repeated(self._assemble(cells, frame.height).block, cells, frame.height)

    def _with_one_dim_per_key(
        self, cells: dict[str, _ColumnCells], height: int, report: ReportBadRow | None
    ) -> dict[str, _ColumnCells] | None:
        """Return the cells without rows that give a key another dim than an earlier row, and record dims."""
        columns, known = self._layout.columns, self._tables.dims
        while True:
            found = self._assemble(cells, height)
            dims = _values_of(cells[str(columns.dim)], height).astype(np.uint8)[found.row_of_access]
            expected = known.expected(found.block.keys, dims)
            other = np.flatnonzero(dims != expected)
            if not len(other):
                known.add(found.block.keys, dims)
                return cells
            if report is None:
                return None
            rows, first = np.unique(found.row_of_access[other], return_index=True)
            for row, access in zip(rows.tolist(), other[first].tolist(), strict=True):
                key = found.describe_key(cells, columns.key, access)
                problem = f"column {columns.dim} is {dims[access]}"
                report(row, problem, f"{expected[access]}, the dim of {key} in an earlier row")
            is_bad = np.zeros(height, np.bool_)
            is_bad[rows] = True
            cells = {name: _drop_bad_rows(cells_of_column, is_bad) for name, cells_of_column in cells.items()}

    def _assemble(self, cells: Mapping[str, _ColumnCells], height: int) -> _Assembled:
        return _assemble_block(cells, height, self._row, self._layout, self._tables)

    def _repeated(
        self, block: AccessBlock, cells: Mapping[str, _ColumnCells], height: int
    ) -> Iterator[AccessBlock]:
        """Yield a block's rows, each as often as its weight."""
        if self._layout.columns.weight is None:
            self._row += height
            yield block
            return
        weights = _values_of(cells[self._layout.columns.weight], height).astype(np.int64)
        yield from _repeat_rows(block, weights, self._row)
        self._row += int(weights.sum())


def _without_bad_rows(
    cells: Mapping[str, _ColumnCells], height: int, layout: Layout, report: ReportBadRow
) -> dict[str, _ColumnCells]:
    is_bad = np.zeros(height, np.bool_)
    for name, cells_of_column in cells.items():
        bad_positions = np.flatnonzero(cells_of_column.values.is_null().to_numpy())
        rows, first_positions = np.unique(cells_of_column.rows[bad_positions], return_index=True)
        for row, index in zip(rows.tolist(), bad_positions[first_positions].tolist(), strict=True):
            if not is_bad[row]:
                value = _format_value(cells_of_column.raw[index])
                report(row, f"column {name} is {value}", _expected(layout.kinds[name], name))
        is_bad[rows] = True
    return {name: _drop_bad_rows(cells_of_column, is_bad) for name, cells_of_column in cells.items()}


_EFFECTS = {
    "--text": "reads its values as texts",
    "--ignore": "leaves the column out",
}


def _expected(kind: Kind, name: str) -> str:
    effect = _EFFECTS.get(kind.flag)
    return kind.expected if effect is None else f"{kind.expected} ({kind.flag} {shlex.quote(name)} {effect})"


def _repeat_rows(block: AccessBlock, weights: NDArray[np.int64], first_row: int) -> Iterator[AccessBlock]:
    """Yield a block's rows as often as their weights, each time as another row."""
    rows = block.group.astype(np.int64) - first_row
    lengths = np.bincount(rows, minlength=len(weights))
    starts = np.cumsum(lengths) - lengths
    begin, next_row = 0, first_row
    while begin < len(weights):
        # At least one row, whose weight is at most `MAX_WEIGHT`.
        sizes = np.cumsum(weights[begin:] * lengths[begin:])
        end = begin + max(1, int(np.searchsorted(sizes, _ACCESSES_AT_ONCE, side="right")))
        repeated = np.repeat(np.arange(begin, end), weights[begin:end])
        access_counts = lengths[repeated]
        offsets = np.repeat(starts[repeated] - (np.cumsum(access_counts) - access_counts), access_counts)
        index = offsets + np.arange(len(offsets))
        new_rows = np.repeat(np.arange(next_row, next_row + len(repeated), dtype=np.uint64), access_counts)
        yield AccessBlock(
            keys=block.keys[index],
            tables=None if block.tables is None else block.tables[index],
            order=None if block.order is None else block.order[index],
            group=new_rows,
            pulls=None if block.pulls is None else block.pulls[index],
        )
        begin, next_row = end, next_row + len(repeated)


def _cells_of(values: pl.Series, layout: Layout, name: str) -> _ColumnCells:
    if name in layout.separators and values.dtype == pl.String:
        values = split_cells(values, layout.separators[name])
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


def _drop_bad_rows(cells: _ColumnCells, is_bad: NDArray[np.bool_]) -> _ColumnCells:
    is_good = ~is_bad[cells.rows]
    mask = pl.Series(is_good)
    return _ColumnCells(cells.rows[is_good], cells.raw.filter(mask), cells.values.filter(mask))


class _Assembled(NamedTuple):
    block: AccessBlock
    row_of_access: NDArray[np.int64]
    order: NDArray[np.int64] | slice  # of the cells of all key columns, one column after the other

    def describe_key(self, cells: Mapping[str, _ColumnCells], columns: Sequence[str], access: int) -> str:
        """Return the column of an access's key, and the key as the log has it."""
        index = access if isinstance(self.order, slice) else int(self.order[access])
        for name in columns:
            if index < len(cells[name].rows):
                return f"{name} {_format_value(cells[name].raw[index])}"
            index -= len(cells[name].rows)
        raise AssertionError("an access without a cell")


def _assemble_block(
    cells: Mapping[str, _ColumnCells], height: int, first_row: int, layout: Layout, tables: AccessTables
) -> _Assembled:
    columns = layout.columns
    keys_by_column = [_keys_of(cells[name], name, layout) for name in columns.key]
    has_several_columns, has_tables = len(keys_by_column) > 1, len(columns.key_tables) > 1
    row_of_access = np.concatenate([cells[name].rows for name in columns.key])
    order = np.argsort(row_of_access, kind="stable") if has_several_columns else slice(None)
    row_of_access, access_keys = row_of_access[order], np.concatenate(keys_by_column)[order]
    table_of_access = None
    if has_tables:
        table_indices = np.array([tables.index(columns.table_of(name)) for name in columns.key], np.uint16)
        table_of_access = np.repeat(table_indices, [len(keys) for keys in keys_by_column])[order]

    def per_access(name: str) -> NDArray[np.generic]:
        access_values: NDArray[np.generic] = _values_of(cells[name], height)[row_of_access]
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
    block = AccessBlock(
        keys=access_keys,
        tables=table_of_access,
        order=None if ordered_by is None else sortable(per_access(ordered_by)),
        group=group,
        pulls=None if columns.op is None else per_access(columns.op).astype(np.bool_),
    )
    return _Assembled(block, row_of_access, order)


def _values_of(cells: _ColumnCells, height: int) -> NDArray[np.generic]:
    """Return the value of each row of a column without lists; 0 for a row that has none."""
    values = np.zeros(height, cells.values.to_numpy().dtype)
    values[cells.rows] = cells.values.to_numpy()
    return values


def _keys_of(cells: _ColumnCells, name: str, layout: Layout) -> Keys:
    keys = cells.values.to_numpy().astype(np.uint64, copy=False)
    columns = layout.columns
    return key_in_table(keys, columns.table_of(name)) if len(columns.key_tables) > 1 else keys


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
