"""Guess the roles of a table's columns from its first rows: by a header's names, or by values alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property

import polars as pl

from foundation.logs.access.kinds import (
    DATETIME,
    IN_BRACKETS,
    NUMBER,
    OPERATIONS,
    are_in_brackets,
    split_cells,
)

Guess = tuple[tuple[str, ...], dict[str, str]]
"""Columns of keys, and the column of each other role."""
_KEY_NAME = re.compile(
    r"(.*_)?(id|key|obj|object|item|user|movie|lbn|lba|uid|iid|isbn|asin|sku|url|uri|product)s?"
    r"|c\d+|cat_?\d+"
)
_TIME_NAME = re.compile(
    r"(.*_)?(time_?stamp|time|ts|date_?time|date)(_?(utc|s|sec|seconds|ms|us|ns|millis|micros|nanos))?|t"
)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
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
_BINARY = 2
"""Distinct values up to which a column is a label, such as of clicks."""
_MAX_SIZE_CHANGES = 0.2
"""Share of an object's accesses up to which its size differs from those before."""
_MAX_GUESSED_COLUMNS = 8
"""Columns without a header beyond which a guess would be as good as none."""


class ColumnProfile:
    """What the first rows show of a column. Most guesses need few of the properties, so each is lazy."""

    def __init__(self, column: pl.Series, is_list: bool = False) -> None:
        self.name = column.name
        self._cells = column.drop_nulls()
        if self._cells.dtype == pl.String and are_in_brackets(self._cells.to_list()):
            self._cells = split_cells(self._cells, IN_BRACKETS)
            is_list = bool(self._cells.explode().drop_nulls().str.contains(r"^\d+$").all())
        self.is_list = is_list
        """Whether the cells are lists of integers, or lists that are keys for another reason."""
        self.values = len(self._cells)
        """Number of cells that are not empty."""

    @property
    def lower_name(self) -> str:
        return _lower_name(self.name)

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

    def orders(self, other: ColumnProfile) -> bool:
        """Return whether the other column never decreases in this one's order, as a coarser time does."""
        mine, others = (each._dates if each._numbers is None else each._numbers for each in (self, other))
        if mine is None or others is None or len(mine) != len(others):
            return False
        return bool((others.gather(mine.arg_sort()).diff().drop_nulls() >= 0).all())

    @property
    def is_strictly_ascending(self) -> bool:
        """Whether each of enough numbers or dates is above the one before."""
        return self.is_sorted and self.distinct == self.values

    @property
    def is_sorted(self) -> bool:
        """Whether enough numbers or dates ascend that this is no chance."""
        return self.values >= _MIN_ROWS and self.is_ascending

    @property
    def is_in_groups(self) -> bool:
        """Whether these are integers from 0 or 1 on that ascend without gaps, as users of sorted rows do."""
        if self._numbers is None or not (self.is_sorted and self.is_integer):
            return False
        return bool(self._numbers[0] in (0, 1) and (self._numbers.diff().drop_nulls() <= 1).all())

    @cached_property
    def lists(self) -> list[list[object]] | None:
        """The cells, if they are lists."""
        return self._cells.to_list() if isinstance(self._cells.dtype, pl.List) else None

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
    def may_be_key(self) -> bool:
        """Whether these are integers or texts, also in lists, of which some recur, and no times."""
        if isinstance(self._cells.dtype, pl.List | pl.Array):
            return ColumnProfile(self._cells.explode()).may_be_key
        is_key = self._has_scalars and (self.is_integer or not self.is_number) and not self.is_time
        return is_key and _BINARY < self.distinct < self.values

    @property
    def differs_in_each_row(self) -> bool:
        return self.values >= _MIN_NUMBERED_ROWS and self.distinct == self.values

    @property
    def is_constant(self) -> bool:
        return self.values >= _MIN_ROWS and self.distinct == 1


def _is_ascending(numbers: pl.Series) -> bool:
    steps = numbers.diff().drop_nulls()
    return bool((steps >= 0).all() and (steps > 0).any())


def _lower_name(name: str) -> str:
    """Return a header's name in lower case, with an underscore between its words."""
    return re.sub(r"[-. ]+", "_", _CAMEL_CASE.sub("_", name.strip()).lower())


def looks_like_key(name: str) -> bool:
    return _KEY_NAME.fullmatch(_lower_name(name)) is not None


def is_known_name(name: str) -> bool:
    """Return whether a header's name tells a column's role."""
    lower_name = _lower_name(name)
    names = {candidate for candidates in _COMMON_NAMES.values() for candidate in candidates}
    return (
        looks_like_key(name)
        or lower_name in names
        or any(pattern.fullmatch(lower_name) is not None for pattern in (_TIME_NAME, _OP_NAME))
    )


class AmbiguousColumnsError(Exception):
    """The values of a column fit two roles; the message has both, and the options that choose."""


def guess_from_names(profiles: Sequence[ColumnProfile], excluded: Collection[str]) -> Guess:
    named = [each for each in profiles if each.name not in excluded]
    # Of names that differ by case only, the dict keeps the first of the header, as it is filled in reverse.
    by_name = {each.lower_name: each for each in reversed(named)}
    others: dict[str, str] = {}
    for role, candidates in _COMMON_NAMES.items():
        for candidate in candidates:
            if candidate in by_name and role not in others:
                others[role] = by_name[candidate].name
    time = None
    if "iteration" not in others:
        others.pop("worker", None)
        time = _time_of(named, others.values())
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
    keys = _without_lengths(_without_row_numbers(keys))
    if time is not None:
        # In the order of time another column that ascends is a coarser time, or numbers what comes.
        keys = [key for key in keys if not _ascends_with(time, key)] or keys
    return tuple(each.name for each in keys), others


def _time_of(columns: Sequence[ColumnProfile], taken: Collection[str]) -> ColumnProfile | None:
    """Return the column of times: of several the one with the finest resolution."""
    named = [each for each in columns if _TIME_NAME.fullmatch(each.lower_name) and _may_be_time(each)]
    free = [each for each in columns if each.name not in taken and not looks_like_key(each.name)]
    shown = [
        each for each in free if each.is_time and (each in named or each.is_sorted or not each.is_number)
    ]
    found = [each for each in columns if each in shown or each in named]
    # If the file is in the order of some of them, the others are times of something else.
    times = [each for each in found if each.is_sorted] or found
    finest = max(times, key=lambda each: each.distinct, default=None)
    if finest is not None and all(finest.orders(each) for each in times):
        return finest
    return next(iter([each for each in times if each in shown] or times), None)


def _ascends_with(time: ColumnProfile, key: ColumnProfile) -> bool:
    if time.is_sorted and key.is_sorted:
        return True
    return key.values >= _MIN_ROWS and key.distinct > 1 and time.orders(key)


def _may_be_time(column: ColumnProfile) -> bool:
    # Without rows, only the name tells.
    return column.is_number or column.is_time or not column.values


def _without_row_numbers(keys: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """Return the keys without those that number rows, of which a cache would miss every one."""

    def numbers_rows(key: ColumnProfile) -> bool:
        is_number = key.is_strictly_ascending or key.lower_name in _ROW_NUMBER_NAMES
        return key.differs_in_each_row and is_number

    return [key for key in keys if not numbers_rows(key)] or list(keys)


def _without_lengths(keys: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """Return the keys without lists that divide another list: the lengths, or offsets, of its parts."""

    def divides(key: ColumnProfile, other: ColumnProfile) -> bool:
        if key is other or key.lists is None or other.lists is None or len(key.lists) != len(other.lists):
            return False
        pairs = [
            ([int(str(value)) if str(value).isdecimal() else -1 for value in part], len(whole))
            for part, whole in zip(key.lists, other.lists, strict=True)
        ]
        if not any(whole for _, whole in pairs) or any(-1 in part for part, _ in pairs):
            return False
        are_lengths = all(sum(part) == whole for part, whole in pairs)
        are_offsets = all(
            part and part[0] == 0 and part == sorted(part) and part[-1] <= whole for part, whole in pairs
        )
        return are_lengths or are_offsets

    return [key for key in keys if not any(divides(key, other) for other in keys)] or list(keys)


def guess_from_values(
    profiles: Sequence[ColumnProfile], excluded: Collection[str], sample: pl.DataFrame
) -> Guess:
    """Guess the columns of a log without a header.

    A log with operations, or whose first column is a time, is a trace: its key is the first other column
    with many values. In another log the first two columns with integers or texts are keys, such as a
    user and an item. A column that ascends is no key, unless rows are sorted by users. Raises
    `AmbiguousColumnsError`.
    """
    columns = [each for each in profiles if each.name not in excluded and each.values]
    if len(profiles) == 1:
        return tuple(each.name for each in columns), {}
    if len(columns) == 1:
        return tuple(each.name for each in columns if _has_key_values(each)), {}
    others: dict[str, str] = {}
    op = next((each for each in columns if each.is_operation), None)
    if op is not None:
        others["op"] = op.name
    is_trace = _is_trace(profiles, sample)
    times = [each for each in columns if each.is_time]
    in_order = [each for each in times if each.is_sorted] or times
    time = max(in_order, key=lambda each: each.distinct, default=None)
    if time is None and is_trace:
        time = profiles[0]
    if time is None and op is not None:
        time = max((each for each in columns if each.is_sorted), key=lambda each: each.distinct, default=None)
    if time is not None and time.name not in excluded:
        others["time"] = time.name
    candidates = [each for each in columns if each.name not in others.values() and _has_key_values(each)]
    if time is None:
        _check_sorted(candidates, sample)
    if time is None or time.is_sorted:
        candidates = [
            each for each in candidates if not each.is_sorted or (time is None and each.is_in_groups)
        ] or candidates
    if is_trace or op is not None:
        many = [each for each in candidates if each.distinct > _FEW_VALUES]
        return tuple(each.name for each in (many or candidates)[:1]), others
    if len(profiles) > _MAX_GUESSED_COLUMNS:
        return (), others
    keys = _without_row_numbers([each for each in candidates if not each.is_constant])[:2]
    if len(keys) == 2 and time is not None and _is_size(sample, keys[0].name, keys[1].name):
        keys = keys[:1]
    return tuple(each.name for each in keys), others


def _has_key_values(column: ColumnProfile) -> bool:
    return column.is_integer or column.is_list or not column.is_number


def _check_sorted(candidates: Sequence[ColumnProfile], sample: pl.DataFrame) -> None:
    """Raise `AmbiguousColumnsError` if a column may be a time, or the key that rows are sorted by."""
    for column in candidates:
        others = [each for each in candidates if each is not column]
        if not column.is_sorted or column.is_consecutive or not others:
            continue
        # Rows of a user name each item once; a time with so many accesses would have some item twice.
        pairs = sample.select(column.name, others[0].name)
        is_user = column.is_in_groups and not column.is_strictly_ascending and pairs.is_unique().all()
        if not is_user and (len(others) > 1 or not column.is_strictly_ascending):
            raise AmbiguousColumnsError(
                f"column {column.name} ascends, so it has times, or keys by which rows are sorted; expected "
                f"--columns time={column.name},key={others[0].name} or "
                f"--columns key={column.name},{others[0].name}"
            )


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
