"""Blocks of accesses, the interface of readers, and their options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access.column_roles import AccessColumns, parse_columns
from foundation.protocol.header import NO_KEY
from foundation.text import one_line

Keys = NDArray[np.uint64]
KEY_EXPECTED = "an integer from 0 to 2^64 - 2"
INTEGER_EXPECTED = "an integer from 0 to 2^64 - 1"
MAX_TABLES = 2**16  # an index has 16 bits
SAMPLES_PER_STEP = 150  # default number of rows of a mini-batch


class AccessBlock(NamedTuple):
    """Consecutive accesses of a log: [n] each."""

    keys: Keys
    tables: NDArray[np.uint16] | None
    """Index of each access's table in `AccessTables`; None for a log without tables."""
    order: Keys | None  # time or iteration; None if the log is in the order of time
    group: Keys  # worker of a log with mini-batches; otherwise the row
    pulls: NDArray[np.bool_] | None  # whether an access is a pull; None if all are updates


MAX_BAD = 0.05
"""Default of the share of bad rows up to which these are skipped."""
_SHOWN = 3  # bad rows that an error shows


class BadRows:
    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self.rows = 0
        """Rows that were read, with the bad ones."""
        self.first: list[str] = []
        """The first problems that were skipped."""
        self._bad_rows: list[tuple[int, str]] = []

    def add(self, path: Path, unit: str, number: int, problem: str, expected: str) -> None:
        self._bad_rows.append(
            (number, f"{path}, {unit} {number}: {one_line(problem)}; expected {one_line(expected)}")
        )

    @property
    def share(self) -> float:
        return self.count / max(self.rows, 1)

    @property
    def problems(self) -> list[str]:
        return [text for _, text in sorted(self._bad_rows)]

    def settle(self, description: str) -> None:
        """Count the rows since the last call; raise `DataError` for the first unless they are skipped.

        `description` is that of the log, which the error repeats.
        """
        if self._bad_rows and not self.skip:
            raise DataError(f"{self.problems[0]}; read as {description}")
        self.first = [*self.first, *self.problems[:_SHOWN]][:_SHOWN]
        self.count += len(self._bad_rows)
        self._bad_rows.clear()

    def check_share(self, name: str, description: str, max_share: float) -> None:
        """Raise `DataError` if more rows were skipped than a log may lack that was read as what it is."""
        if self.share > max_share:
            raise DataError(
                f"{name}: {self.count:,} of {self.rows:,} rows are bad ({self.share:.1%}); expected at most "
                f"{max_share:.0%} (--max-bad): {'; '.join(self.first)}; read as {description}"
            )


Dims = NDArray[np.uint8]


class KnownDims(Protocol):
    """The dims of rows, as a column of the log has them: each key names a row of one dim."""

    def expected(self, keys: Keys, dims: Dims) -> Dims:
        """Return the dim that each key [n] has in earlier accesses, or in the first of these accesses."""

    def add(self, keys: Keys, dims: Dims) -> None:
        """Record the dims of keys that have the expected ones."""


class AccessTables:
    """Names and indices of a log's tables, in the order of their first access, and the dims of its rows."""

    def __init__(self, dims: KnownDims) -> None:
        self.dims = dims
        self.names: list[str] = []
        self._index: dict[str, int] = {}

    def index(self, name: str) -> int:
        if name not in self._index:
            if len(self.names) == MAX_TABLES:
                raise DataError(f"table {name!r}: expected at most {MAX_TABLES:,} tables")
            self._index[name] = len(self.names)
            self.names.append(name)
        return self._index[name]


def key_in_table(values: Keys, table: str) -> Keys:
    """Return keys that differ between tables: a bijection of 64 bits for each table (splitmix64)."""
    # One value in 2^64 would mean "no key" on the wire.
    keys: Keys = np.minimum(mix(values ^ np.uint64(hash_of_name(table))), np.uint64(NO_KEY - 1))
    return keys


def mix(values: Keys) -> Keys:
    """Return hashes of 64 bits, different for different values (splitmix64)."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hash_of_name(name: str) -> int:
    """Return FNV-1a of a name in 64 bits, the same on every machine."""
    value = 0xCBF29CE484222325
    for octet in name.encode():
        value = (value ^ octet) * 0x100000001B3 % 2**64
    return value


@dataclass(frozen=True, slots=True)
class ReadOptions:
    columns: AccessColumns = field(default_factory=AccessColumns)
    batch: int = SAMPLES_PER_STEP  # rows of a mini-batch, for logs without mini-batches
    skip_bad: bool = False
    max_bad: float = MAX_BAD
    """Share of bad rows up to which these are skipped."""
    format: str | None = None
    """Format of the files (`registry.FORMATS`); None means the one that explains their first lines best."""
    separator: str | None = None
    """What separates the values of a line; None means the text that explains the first lines best."""


def read_options(
    columns: str | None = None,
    batch: int = SAMPLES_PER_STEP,
    skip_bad: bool = False,
    format: str | None = None,
    separator: str | None = None,
    max_bad: float = MAX_BAD,
) -> ReadOptions:
    requested = AccessColumns() if columns is None else parse_columns(columns)
    return ReadOptions(requested, batch, skip_bad, max_bad, format, separator)


class AccessLog(Protocol):
    @property
    def description(self) -> str:
        """The format, and the role of each column."""

    @property
    def has_batches(self) -> bool:
        """Whether mini-batches are in the log: groups of the same order and worker."""

    @property
    def position(self) -> int:
        """Bytes of the file that have been read."""

    def blocks(self, tables: AccessTables, bad: BadRows, first_row: int) -> Iterator[AccessBlock]:
        """Yield accesses, rows numbered from `first_row`; bad rows are added to `bad` before their block."""
