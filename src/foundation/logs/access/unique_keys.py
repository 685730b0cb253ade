"""Keys with a single access: a guessed column of them is left out, and a log of nothing else is refused.

The first rows of a log cannot show this, because a column of many keys has few of them twice in so few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from foundation.errors import DataError
from foundation.logs.access.block import AccessLog, ReadOptions
from foundation.logs.access.column_roles import join_names
from foundation.logs.access.opened_logs import open_logs
from foundation.logs.access.table_rows import TableLog

_MIN_LEFT_OUT, _MIN_NOTED = 50, 1000
"""Accesses of a table from which on it is no chance that each has another key: of one that was guessed, and
of one that an option or the format names."""
UNSCORABLE = "so no hot set can be chosen and scored"


class TableCounts(NamedTuple):
    """The distinct keys of a table, and its accesses before repeated keys of a mini-batch are dropped."""

    name: str  # empty for the only table
    keys: int
    accesses: int

    @property
    def is_unique(self) -> bool:
        return self.keys == self.accesses > 0


def unique_columns(log: AccessLog, options: ReadOptions, tables: Sequence[TableCounts]) -> tuple[str, ...]:
    """Return the guessed columns whose keys all differ, and which therefore number or name events."""
    if options.columns.key or not isinstance(log, TableLog) or log.layout.columns.table is not None:
        return ()
    unique = {table.name for table in tables if table.is_unique and table.accesses >= _MIN_LEFT_OUT}
    columns = log.layout.columns.key
    if len(columns) == 1:
        return columns if "" in unique else ()
    return tuple(name for name in columns if name in unique)


def without_columns(
    files: Sequence[Path], options: ReadOptions, columns: Sequence[str]
) -> ReadOptions | None:
    """Return the options that ignore these columns; None if no other column of the files looks like a key."""
    ignored = (*options.columns.ignore, *columns)
    narrower = replace(options, columns=replace(options.columns, ignore=ignored))
    try:
        open_logs(files, narrower)
    except DataError:
        return None
    return narrower


def check_repeats(name: str, log: AccessLog, tables: Sequence[TableCounts], left_out: Sequence[str]) -> None:
    """Raise `DataError` if all accesses have different keys; `left_out` are further columns of such keys."""
    accesses, columns, choices = sum(table.accesses for table in tables), "", tuple[str, ...]()
    if accesses == 1 or not all(table.is_unique for table in tables if table.accesses):
        return
    if isinstance(log, TableLog):
        columns = f" in {join_names((*left_out, *log.layout.columns.key))}"
        choices = log.layout.other_keys
    remedy = "no other column could be a key, so the log has no repeated keys"
    if choices:
        remedy = f"expected --columns key=NAME with one of {join_names(choices)}, whose values recur"
    raise DataError(
        f"{name}: all {accesses:,} keys{columns} are distinct, {UNSCORABLE}; {remedy}; read as "
        f"{log.description}"
    )


def check_mini_batches(name: str, keys: int, batch: int | None) -> None:
    """Raise `DataError` for a log of `keys` that are in one mini-batch each; `batch` are its rows."""
    remedy = "" if batch is None else f" (--batch, below {batch:,} rows, divides the log into more of them)"
    raise DataError(
        f"{name}: each of {keys:,} keys is in one mini-batch only, {UNSCORABLE}; expected keys that are in "
        f"several mini-batches{remedy}"
    )


def notes_on_unique_keys(
    tables: Sequence[TableCounts], columns: Sequence[str], left_out: Sequence[str]
) -> Iterator[str]:
    """Yield a note on each column that was left out, and on tables of the others whose keys all differ."""
    for name in left_out:
        taken = ",".join((*columns, name))
        yield f"column {name} is left out, because all its keys are distinct (--columns key={taken})"
    for table in tables:
        if table.name and table.is_unique and table.accesses >= _MIN_NOTED:
            yield (
                f"in table {table.name} all {table.accesses:,} keys are distinct: do they number rows? "
                "(--ignore)"
            )
