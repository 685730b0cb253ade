"""Guessed roles over formats, names, orders and decoys: each log is read as it was written, or refused."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import DataError
from foundation.logs.access.column_roles import parse_columns
from switch_harness.effort import examples
from switch_harness.wording import mentions
from tests.harness.access_logs import keys_by_step, read
from tests.harness.lookalikes import rows_of, signatures

_ROWS, _KEYS = 240, 30
_TIME_NAMES = ("time", "timestamp", "time_stamp", "eventTime", "ts", "time_ms")
_KEY_NAMES = ("item_id", "itemId", "obj", "movie", "key")
_NUMBER_NAMES = ("id", "event_id", "requestId", "seq")
_NAMED = ("csv", "tsv", "comment", "json", "parquet", "arrow")
_UNNAMED = ("bare csv", "bare tsv", "bare spaces")
Column = list[object]


@dataclass(frozen=True, repr=False)
class WrittenLog:
    """Columns by name, in their order, and the keys of each row in the order of time."""

    columns: dict[str, Column]
    truth: list[list[int]]

    def __repr__(self) -> str:
        return ", ".join(f"{name}={column[:5]}..." for name, column in self.columns.items())

    def write(self, file: Path, format: str) -> None:
        frame = pl.DataFrame(self.columns, strict=False)
        if format in ("parquet", "arrow"):
            frame.write_parquet(file) if format == "parquet" else frame.write_ipc(file)
            return
        rows = list(zip(*self.columns.values(), strict=True))
        if format == "json":
            objects = [dict(zip(self.columns, row, strict=True)) for row in rows]
            file.write_text("".join(json.dumps(each) + "\n" for each in objects))
            return
        separator = {"tsv": "\t", "bare tsv": "\t", "bare spaces": " "}.get(format, ",")
        lines = [separator.join(_cell(value) for value in row) for row in rows]
        if format in _NAMED:
            lines.insert(0, ("# " if format == "comment" else "") + separator.join(self.columns))
        file.write_text("\n".join(lines) + "\n")


def _cell(value: object) -> str:
    return f'"{value}"' if isinstance(value, list) else str(value)


@st.composite
def logs(draw: st.DrawFn, is_named: bool) -> WrittenLog:
    rng = random.Random(draw(st.integers(0, 10_000)))
    ms, now, times = 1_600_000_000_000, 1_600_000_000_000, list[int]()
    per_row_ms = draw(st.sampled_from([30, 700, 40_000]))
    for _ in range(_ROWS):
        now += rng.randint(1, 2 * per_row_ms)
        times.append(now)
    keys = [[min(int(rng.paretovariate(0.8)), _KEYS)] for _ in times]
    key_column: Column = [key for [key] in keys]
    if is_named and draw(st.booleans()):
        keys = [sorted({rng.randint(1, _KEYS) for _ in range(rng.randint(1, 4))}) for _ in times]
        key_column = list(keys)
    unit = draw(st.sampled_from([1, 1_000]))
    is_epoch = draw(st.booleans()) or not is_named
    time: Column = [(each - (0 if is_epoch else ms)) // unit for each in times]
    names = iter(rng.sample(_TIME_NAMES, len(_TIME_NAMES)))
    found: dict[str, Column] = {next(names): time, rng.choice(_KEY_NAMES): key_column}
    if draw(st.booleans()):
        # A number of each row, with gaps: they ascend, or are in any order.
        numbers: Column = [10_000 + 3 * at + rng.randint(0, 2) for at in range(_ROWS)]
        is_ascending = draw(st.booleans())
        found[rng.choice(_NUMBER_NAMES)] = numbers if is_ascending else rng.sample(numbers, _ROWS)
    if is_named and unit == 1 and draw(st.booleans()):
        dates = [datetime.fromtimestamp(each / 1_000, timezone.utc) for each in times]
        found["date"] = [f"{each:%Y-%m-%d}" for each in dates]
    if is_named and unit == 1 and draw(st.booleans()):
        found[next(names)] = [each // 60_000 for each in times]
    if is_named and isinstance(key_column[0], list) and draw(st.booleans()):
        found["key_lengths" if draw(st.booleans()) else "lengths"] = [[len(row)] for row in keys]
    if draw(st.booleans()):
        found["size"] = [each * 37 % 400 + 10 if isinstance(each, int) else 5 for each in key_column]
    order = rng.sample(list(found), len(found))
    by_row = list(range(_ROWS))
    if is_named and unit == 1 and draw(st.booleans()):
        rng.shuffle(by_row)  # times differ, and tell the order
    return WrittenLog({name: [found[name][row] for row in by_row] for name in order}, keys)


def _expected(truth: Sequence[Sequence[int]]) -> object:
    return signatures([[("", key) for key in row] for row in truth])


@given(log=logs(is_named=True), format=st.sampled_from(_NAMED))
@settings(max_examples=examples(160), deadline=None)
def test_a_log_with_column_names_is_read_as_written(log: WrittenLog, format: str) -> None:
    with TemporaryDirectory() as folder:
        log.write(Path(folder) / "log", format)
        found = read(Path(folder), Path(folder) / "log")
    assert signatures(rows_of(found)) == _expected(log.truth), (found.notes, list(log.columns))


@given(log=logs(is_named=False), format=st.sampled_from(_UNNAMED))
@settings(max_examples=examples(160), deadline=None)
def test_a_log_without_column_names_is_read_as_written_or_refused(log: WrittenLog, format: str) -> None:
    with TemporaryDirectory() as folder:
        log.write(Path(folder) / "log", format)
        try:
            found = read(Path(folder), Path(folder) / "log")
        except DataError as refused:
            assert "--columns" in str(refused) and "key=" in str(refused)
            return
    assert signatures(rows_of(found)) == _expected(log.truth), (found.notes, list(log.columns))


@pytest.mark.parametrize(
    "name", [*_TIME_NAMES, "t", "time_us", "unixReviewTime", "created_date", "Event-Time"]
)
def test_a_column_name_of_times_orders_rows_whose_values_do_not_show_times(tmp_path: Path, name: str) -> None:
    (tmp_path / "log").write_text(f"{name},item_id\n" + "".join(f"{at * 7 % 20},{at}\n" for at in range(20)))
    [row_of_time_one] = [row for row in range(20) if row * 7 % 20 == 1]
    assert keys_by_step(read(tmp_path, tmp_path / "log"))[1] == [row_of_time_one]


@pytest.mark.parametrize("cells", ["[7, 8, 9]", '["7", "8", "9"]', "(7, 8, 9)", "[7 8 9]", "['7', '8', '9']"])
def test_cells_in_brackets_are_lists(tmp_path: Path, cells: str) -> None:
    quoted = cells.replace('"', '""')
    (tmp_path / "log").write_text(f'label,items\n1,"{quoted}"\n0,[]\n1,[8]\n')
    assert keys_by_step(read(tmp_path, tmp_path / "log")) == [[7, 8, 9], [8]]


def test_a_vector_in_brackets_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('item_id,vector\n5,"[0.25, 1.5]"\n6,"[0.5, 2.5]"\n')
    assert keys_by_step(read(tmp_path, tmp_path / "log")) == [[5], [6]]


@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        # A user's rows follow each other, and name an item once.
        ([(user, user * 7 % 11 + item) for user in range(30) for item in range(3)], 2),
        # Several accesses of each second, some of the same key: it may be a user as well.
        ([(second // 2, second * second % 7) for second in range(90)], None),
        ([(second // 2 * 3, second * second % 7) for second in range(90)], None),
        ([(second * 5, second * second % 7) for second in range(90)], 1),
    ],
)
def test_an_ascending_first_column_is_a_time_only_if_its_values_allow(
    tmp_path: Path, rows: list[tuple[int, int]], keys: int | None
) -> None:
    file = tmp_path / "log"
    file.write_text("".join(f"{first},{second}\n" for first, second in rows))
    if keys is None:
        with pytest.raises(DataError, match=mentions("time=1,key=2", "key=1,2")):
            read(tmp_path, file)
        assert len(read(tmp_path, file, columns="time=1,key=2").keys) == len({key for _, key in rows})
        return
    assert max(len(row) for row in keys_by_step(read(tmp_path, file))) == keys


def test_columns_that_share_a_table_have_the_same_keys(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("buyer,seller,item_id\n1,x,1\n2,y,1\n3,1,2\n")
    shared = read(tmp_path, file, columns="key@users=buyer,seller,key=item_id")
    assert [sorted(table for table, _ in row) for row in rows_of(shared)] == [
        ["item_id", "users", "users"]
    ] * 3
    first, second, third = ({key for table, key in row if table == "users"} for row in rows_of(shared))
    assert len(first | second | third) == 5 and len(first & third) == 1
    assert len(read(tmp_path, file, columns="key=buyer,seller,item_id").keys) == 8
    # Integers of one table stay as they are.
    alone = read(tmp_path, file, columns="key@users=1,key@users=3")
    assert alone.tables == ()
    file.write_text("a,b\n1,2\n2,3\n")
    assert keys_by_step(read(tmp_path, file, columns="key@users=a,b")) == [[1, 2], [2, 3]]


@pytest.mark.parametrize("text", ["key@=a", "time@t=a", "key@t=a,key@u=a", "@t=a"])
def test_a_table_needs_a_name_and_keys(text: str) -> None:
    with pytest.raises(DataError, match="--columns"):
        parse_columns(text)


def test_printed_columns_are_parsed_to_the_same_text() -> None:
    text = "key=a,key@t=b,key@t=c,text=b,time=d"
    assert str(parse_columns(text)) == text and parse_columns(text).key_tables == ("a", "t")


@pytest.mark.parametrize(("bad", "max_bad"), [*product([5, 6, 60, 101], [0.05, 0.5])])
def test_more_than_a_share_of_bad_rows_is_refused(tmp_path: Path, bad: int, max_bad: float) -> None:
    """Good rows are 100, so that 6 bad ones are more than 5 %, and 101 more than half."""
    lines = ["iteration,worker,key", *(f"{at // 10},1,{at % 7}" for at in range(100))]
    (tmp_path / "log").write_text("\n".join([*lines, *["1,1,x"] * bad]) + "\n")
    if bad / (100 + bad) > max_bad:
        expected = mentions(f"{bad}", f"{100 + bad}", "--max-bad", "line 102", "line 104", "'x'", "2^64")
        with pytest.raises(DataError, match=expected):
            read(tmp_path, tmp_path / "log", skip_bad=True, max_bad=max_bad)
        return
    assert len(read(tmp_path, tmp_path / "log", skip_bad=True, max_bad=max_bad)) == 10
