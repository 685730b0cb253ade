"""Guess the roles of a table's columns from its first rows: by a header's names, or by values alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property

import polars as pl

from foundation.logs.access.kinds import DATETIME, NUMBER, OPERATIONS

Guess = tuple[tuple[str, ...], dict[str, str]]
"""Columns of keys, and the column of each other role."""
_KEY_NAME = re.compile(
    r"(.*_)?(id|ids|key|keys|obj|object|item|user|movie|lbn|lba|uid|iid|isbn|asin|sku|url|uri|product)"
    r"|c\d+|cat_?\d+"
)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)s?")
_TIME_NAME = re.compile(r"(.*_)?(timestamp|time|ts|datetime|date)|t|unixreviewtime")
_OP_NAME = re.compile(r"op|operation|opcode|op_type|operation_type|request_type|command|cmd|verb")
_WEIGHT_NAMES = ("op_count", "opcount", "access_count", "num_ops")
_ROW_NUMBER_NAMES = ("", "id", "_id", "index", "row", "row_id", "rowid", "unnamed:_0", "uuid", "guid")
_COMMON_NAMES = {
    "table": ("table", "table_id", "table_name"),
    "iteration": ("iteration", "step", "batch", "batch_id"),
    "worker": ("worker", "worker_id", "rank"),
}
_MIN_ROWS, _MIN_NUMBERED_ROWS = 10, 50
"""Numbers of rows from which on values show that a column is constant, and that it numbers rows."""
_EPOCHS_S = (5e8, 4.2e9)
"""Unix times in s, from 1985 to 2103, by which a column of integers is taken for times."""
_EPOCH_UNITS = (1, 10**3)
_FEW_VALUES = 16
"""Distinct values up to which a column beside others is a field such as a disk's number, and no key."""
_MAX_SIZE_CHANGES = 0.2
"""Share of an object's accesses up to which its size differs from those before."""
_MAX_GUESSED_COLUMNS = 8
"""Columns without a header beyond which a guess would be as good as none."""


class ColumnProfile:
    """What the first rows show of a column. Most guesses need few of the properties, so each is lazy."""

    def __init__(self, column: pl.Series, is_list: bool = False) -> None:
        self.name, self.is_list = column.name, is_list
        self._cells = column.drop_nulls()
        self.values = len(self._cells)
        """Number of cells that are not empty."""

    @property
    def lower_name(self) -> str:
        return re.sub(r"[-. ]+", "_", self.name.strip().lower())

    @property
    def _has_lists(self) -> bool:
        return self.is_list or isinstance(self._cells.dtype, pl.List | pl.Array)

    @property
    def _has_scalars(self) -> bool:
        kind = self._cells.dtype
        return not (self._has_lists or kind in (pl.Object, pl.Null) or kind.is_nested())

    @cached_property
    def distinct(self) -> int:
        if self._has_lists:
            return self.values
        return self._cells.n_unique() if self._has_scalars else 0

    @cached_property
    def _numbers(self) -> pl.Series | None:
        """The cells that are numbers; None unless most are."""
        if not self._has_scalars or self._cells.dtype.is_temporal():
            return None
        numbers = NUMBER.convert(self._cells).drop_nulls()
        return numbers if 2 * len(numbers) > self.values else None

    @cached_property
    def _dates(self) -> pl.Series | None:
        """The cells that are dates; None unless most are."""
        if not self._has_scalars or self.is_number:
            return None
        is_temporal = self._cells.dtype.is_temporal()
        dates = DATETIME.convert(self._cells if is_temporal else self._cells.cast(pl.String)).drop_nulls()
        return dates if 2 * len(dates) > self.values else None

    @property
    def is_number(self) -> bool:
        return self._numbers is not None

    @cached_property
    def is_integer(self) -> bool:
        return self._numbers is not None and bool((self._numbers == self._numbers.floor()).all())

    @cached_property
    def is_time(self) -> bool:
        """Whether the cells are dates, or Unix times."""
        if self._numbers is None:
            return self._dates is not None
        smallest, largest = float(self._numbers.min()), float(self._numbers.max())  # type: ignore[arg-type]  # not null
        return any(unit * _EPOCHS_S[0] <= smallest and largest < unit * _EPOCHS_S[1] for unit in _EPOCH_UNITS)

    @cached_property
    def is_operation(self) -> bool:
        if not self._has_scalars or self.is_number or self.is_time:
            return False
        texts = set(self._cells.unique().cast(pl.String).str.to_lowercase().to_list())
        return bool(texts) and texts <= OPERATIONS.keys()

    @cached_property
    def is_ascending(self) -> bool:
        """Whether no number or date is below the one before, and two differ."""
        ordered = self._dates if self._numbers is None else self._numbers
        return ordered is not None and _is_ascending(ordered)

    @cached_property
    def is_consecutive(self) -> bool:
        """Whether the cells are integers, each 1 above the one before."""
        return (
            self._numbers is not None
            and self.is_integer
            and self.values >= _MIN_ROWS
            and bool((self._numbers.diff().drop_nulls() == 1).all())
        )

    @property
    def differs_in_each_row(self) -> bool:
        return self.values >= _MIN_NUMBERED_ROWS and self.distinct == self.values

    @property
    def is_constant(self) -> bool:
        return self.values >= _MIN_ROWS and self.distinct == 1


def _is_ascending(numbers: pl.Series) -> bool:
    steps = numbers.diff().drop_nulls()
    return bool((steps >= 0).all() and (steps > 0).any())


def looks_like_key(name: str) -> bool:
    lower_name = re.sub(r"[-. ]+", "_", name.strip().lower())
    return bool(_KEY_NAME.fullmatch(lower_name) or _CAMEL_ID.fullmatch(name.strip()))


def is_known_name(name: str) -> bool:
    """Return whether a header's name tells a column's role."""
    lower_name = name.strip().lower()
    names = {candidate for candidates in _COMMON_NAMES.values() for candidate in candidates}
    return (
        looks_like_key(name)
        or lower_name in names
        or any(pattern.fullmatch(lower_name) is not None for pattern in (_TIME_NAME, _OP_NAME))
    )


def guess_from_names(profiles: Sequence[ColumnProfile], excluded: Collection[str]) -> Guess:
    named = [each for each in profiles if each.name not in excluded]
    # Of names that differ by case only, the dict keeps the first of the header, as it is filled in reverse.
    by_name = {each.lower_name: each for each in reversed(named)}
    others: dict[str, str] = {}
    for role, candidates in _COMMON_NAMES.items():
        for candidate in candidates:
            if candidate in by_name and role not in others:
                others[role] = by_name[candidate].name
    if "iteration" not in others:
        others.pop("worker", None)
        time = next(
            (each for each in named if _TIME_NAME.fullmatch(each.lower_name) and _is_time(each)), None
        )
        if time is not None:
            others["time"] = time.name
    op = next((each for each in named if _OP_NAME.fullmatch(each.lower_name)), None)
    if op is not None and (op.is_operation or (op.lower_name == "op" and "iteration" in others)):
        others["op"] = op.name
        weight = next((by_name[name] for name in _WEIGHT_NAMES if name in by_name), None)
        if weight is not None and weight.is_integer and "iteration" not in others:
            others["weight"] = weight.name
    taken = set(others.values())
    keys = [each for each in named if each.name not in taken and (each.is_list or looks_like_key(each.name))]
    if "key" in by_name:
        keys = [by_name["key"]]
    return tuple(each.name for each in _without_row_numbers(keys)), others


def _is_time(column: ColumnProfile) -> bool:
    # Without rows, only the name tells.
    return column.is_number or column.is_time or not column.values


def _without_row_numbers(keys: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """Return the keys without those that number rows, of which a cache would miss every one."""

    def numbers_rows(key: ColumnProfile) -> bool:
        is_number = key.is_consecutive or key.lower_name in _ROW_NUMBER_NAMES
        return key.differs_in_each_row and is_number

    return [key for key in keys if not numbers_rows(key)] or list(keys)


def guess_from_values(
    profiles: Sequence[ColumnProfile], excluded: Collection[str], sample: pl.DataFrame
) -> Guess:
    """Guess the columns of a log without a header.

    A log with operations, or whose first column is a time, is a trace: its key is the first other column
    with many values. In another log the first two columns with integers or texts are keys, such as a
    user and an item.
    """
    columns = [each for each in profiles if each.name not in excluded and each.values]
    others: dict[str, str] = {}
    op = next((each for each in columns if each.is_operation), None)
    if op is not None:
        others["op"] = op.name
    is_trace = _is_trace(profiles, sample)
    time = profiles[0] if is_trace else next((each for each in columns if each.is_time), None)
    if time is not None and time.name not in excluded:
        others["time"] = time.name
    candidates = [
        each
        for each in columns
        if each.name not in others.values() and (each.is_integer or each.is_list or not each.is_number)
    ]
    if len(columns) == 1:
        return (columns[0].name,), {}
    if is_trace or op is not None:
        many = [each for each in candidates if each.distinct > _FEW_VALUES]
        return tuple(each.name for each in (many or candidates)[:1]), others
    if len(profiles) > _MAX_GUESSED_COLUMNS:
        return (), others
    keys = [each for each in candidates if not each.is_constant]
    return tuple(each.name for each in _without_row_numbers(keys)[:2]), others


def _is_trace(profiles: Sequence[ColumnProfile], sample: pl.DataFrame) -> bool:
    first = profiles[0]
    if len(profiles) < 2 or not (first.is_ascending or first.is_constant):
        return False
    if first.is_ascending and (first.is_time or not first.is_integer):
        return True
    if len(profiles) == 2:
        return False
    is_size = _is_size(sample, *sample.columns[1:3])
    return first.differs_in_each_row if is_size is None else is_size


def _is_size(sample: pl.DataFrame, key: str, size: str) -> bool | None:
    """Return whether a column has one value for each key, as sizes of objects have, and ratings have not.

    None if too few keys are repeated.
    """
    rows = sample.select(pl.col(key).alias("key"), pl.col(size).alias("size")).drop_nulls()
    keys, pairs = rows["key"].n_unique(), rows.n_unique()
    if rows.height - keys < _MIN_ROWS:
        return None
    sizes, repeats = rows["size"].n_unique(), rows.height - keys
    changes_little = sizes > _FEW_VALUES and pairs - keys <= _MAX_SIZE_CHANGES * repeats
    return sizes > 1 and (keys == pairs or changes_little)
