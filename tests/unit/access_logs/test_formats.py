"""Each format of access logs: what it is taken for, the same accesses however packed, and bad rows."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

from foundation.errors import DataError
from foundation.logs.access import log_files, steps
from foundation.logs.access.block import AccessTables, BadRows, read_options
from foundation.logs.access.dims_by_key import DimsByKey
from foundation.logs.access.format_detection import open_log
from foundation.logs.access.steps import Steps
from switch_harness.wording import mentions, says
from tests.harness.access_logs import accesses_by_table, keys_by_step, oracle_general, read
from tests.harness.wheels import movielens

CRITEO = "\t".join(["1", *map(str, range(12)), "", *(f"{at:08x}" for at in range(25)), ""]) + "\n"


def read_text(folder: Path, name: str, text: str, **options: Any) -> Steps:
    """Write a log, and read it."""
    (folder / name).write_text(text)
    return read(folder, folder / name, **options)


def test_movielens_is_read_with_users_and_items_as_tables(tmp_path: Path) -> None:
    found = read(tmp_path, movielens(), batch=100)
    assert (len(found), found.tables) == (1_000, ("user_id", "item_id"))
    assert np.bincount(found.table_of).tolist() == [943, 1_682]
    assert says(found.notes[0], "user_id", "item_id", 2)
    items = read(tmp_path, movielens(), columns="key=item_id")
    assert (len(items.accesses), len(items.keys), items.tables) == (100_000, 1_682, ())
    frame = pl.read_csv(movielens(), separator="\t").sort("timestamp:float", maintain_order=True)
    assert items.keys[items.accesses].tolist() == frame["item_id:token"].to_list()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "zlib": zlib.compress,
    "frames": lambda data: zstandard.compress(data[:48]) + zstandard.compress(data[48:]),
}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("form", ["csv", "tsv", "oracle", "parquet", "recbole", "bare", "svm"])
def test_every_format_is_read_with_every_compression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, packed: str
) -> None:
    monkeypatch.setattr(log_files, "BLOCK_BYTES", 60)
    keys = [5, 7, 5, 2**40, 9, 5, 7, 1, 1, 12, 0, 5]
    table = pl.DataFrame({"time": range(12), "size": 4, "item_id": keys})
    path = tmp_path / "log"
    if form == "parquet":
        table.write_parquet(path)
        data = path.read_bytes()
    else:
        data = {
            "csv": table.write_csv().encode(),
            "tsv": table.write_csv(separator="\t", line_terminator="\r\n").encode(),
            "oracle": oracle_general(keys),
            "recbole": b"item_id:token\tsize:float\n" + b"".join(b"%d\t4.5\n" % key for key in keys),
            "bare": b"".join(b"%d\n" % key for key in keys),
            "svm": b"".join(b"0 %d:1 # a, b\n" % key for key in keys),
        }[form]
    path.write_bytes(PACKED[packed](data))
    found = read(tmp_path, path)
    assert keys_by_step(found) == [[key] for key in keys]
    assert found.tables == ()
    assert keys_by_step(read(tmp_path, path, batch=5)) == [[5, 7, 9, 2**40], [1, 5, 7, 12], [0, 5]]


def test_batches_are_rows_in_the_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ts,user_id,movieId\n" + "".join(f"{9.5 - at},{at % 2},{at}\n" for at in range(10)))
    monkeypatch.setattr(steps, "ACCESSES_AT_ONCE", 3)
    monkeypatch.setattr(steps, "_SAMPLE_EVERY", 1)
    found = read(tmp_path, path, columns="key=movieId", batch=4)
    assert keys_by_step(found) == [[6, 7, 8, 9], [2, 3, 4, 5], [0, 1]]
    assert found.notes[1:] == (
        "mini-batches of 4 rows (--batch), because the log has none",
        "sorted by time, because its rows are not in that order",
    )
    both = read(tmp_path, path, batch=10)
    assert (len(both.accesses), both.tables) == (12, ("user_id", "movieId"))


def test_criteos_files_are_read_as_26_tables_in_the_order_of_days(tmp_path: Path) -> None:
    day = tmp_path / "data" / "day_10"
    day.parent.mkdir()
    day.write_text(CRITEO * 3)
    (tmp_path / "data" / "day_9.gz").write_bytes(
        gzip.compress(CRITEO.replace("00000003", "0a0b0c0d").encode())
    )
    found = read(tmp_path, tmp_path / "data", batch=2)
    assert found.tables == tuple(f"C{number}" for number in range(1, 27))
    assert (len(found), len(found.keys)) == (2, 26)
    # An empty category is no access; keys of one value differ between tables.
    assert accesses_by_table(found) == {
        **{f"C{number}": 2 for number in range(1, 26)}, "C4": 3, "C26": 0
    }  # fmt: skip
    assert says(found.notes[0], "C1", "C26", 26)
    matching = read(tmp_path, tmp_path / "data" / "day_*", columns="key=C1,C2", batch=2)
    assert matching.tables == ("C1", "C2")


def test_a_column_names_the_table(tmp_path: Path) -> None:
    found = read_text(tmp_path, "log.csv", "table,id\nuser,1\nitem,1\nuser,2\nuser,1\n")
    assert (found.tables, len(found.keys)) == (("user", "item"), 3)
    assert accesses_by_table(found) == {"user": 3, "item": 1}


def test_lists_of_keys_in_hugectrs_parquet_files_are_read(tmp_path: Path) -> None:
    table = pl.DataFrame({"label": [1.0, 0.0], "clicks": [[5, 6], []], "C2": [3, None], "age": [40, 50]})
    table.write_parquet(tmp_path / "0.parquet")
    found = read(tmp_path, tmp_path / "0.parquet")
    assert (found.tables, accesses_by_table(found)) == (("clicks", "C2"), {"clicks": 2, "C2": 1})
    (tmp_path / "_metadata.json").write_text('{"cats": [{"col_name": "clicks", "index": 1}], "conts": []}')
    assert keys_by_step(read(tmp_path, tmp_path / "0.parquet")) == [[5, 6]]
    assert says(read(tmp_path, tmp_path / "0.parquet").notes[0], "HugeCTR's", "Parquet")


def test_a_sequence_in_a_file_of_recbole_is_one_key_per_token(tmp_path: Path) -> None:
    text = "genres:token_seq\trating:float\nDrama War\t1\n\t2\nWar\t3\n"
    found = read_text(tmp_path, "x.inter", text)
    assert (len(found), len(found.keys)) == (2, 2)


def test_texts_are_accepted_as_keys(tmp_path: Path) -> None:
    found = read_text(tmp_path, "x.csv", 'item_id,note\nab,"x, ""y""\n z"\ncd,\nab,\n')
    assert (len(found), len(found.keys)) == (3, 2)
    assert found.accesses[0] == found.accesses[2] != found.accesses[1]


BAD_CSV = "time,id\n1,5\n2,6,7\n3,x\n,8\n4,-1\n5,18446744073709551615\n6,9\n"
BAD_CRITEO = CRITEO + "1\t2\n" + CRITEO.replace("00000003", "wxyz") + CRITEO.replace("00000004", "1" * 17)
BAD_RECBOLE = "item_id:token\ttimestamp:float\n3\t5.5\n4\tnoon\n5\t6\t7\nx\t8\n6\t9\n7\t10\n"
BAD_SVM = "1 1:1\n1 2\n2 1:1\n0 3:nan\n0 4:1\n"


@pytest.mark.parametrize(
    ("content", "columns", "messages", "good"),
    [
        (
            BAD_CSV.encode(), None,
            ["line 3: 3 values; expected 2", "line 4: column id is 'x'; expected an integer from 0",
             "line 5: column time is empty; expected a number", "line 6: column id is '-1'",
             "line 7: column id is '18446744073709551615'"], 2,
        ),
        (
            BAD_CRITEO.encode(), "key=C*",
            ["line 2: 2 values; expected 40", "line 3: column C4 is 'wxyz'; expected a hexadecimal",
             "line 4: column C5 is '11111111111111111'"], 1,
        ),
        (
            BAD_RECBOLE.encode(), None,
            ["line 3: column timestamp is 'noon'; expected a number", "line 4: 3 values; expected 2",
             "line 5: column item_id is 'x'; expected an integer"], 3,
        ),
        (
            BAD_SVM.encode(), None,
            ["line 2: '2' is not index:value", "line 3: label '2' is not binary", "line 4: '3:nan'"], 2,
        ),
        (
            oracle_general([5, 2**64 - 1, 6, 2**64 - 1, 7])[:-20], None,
            ["record 2: object is 18446744073709551615; expected an integer", "record 4: object is",
             "record 5: 4 bytes; expected 24"], 2,
        ),
    ],
    ids=["csv", "criteo", "recbole", "libsvm", "oracle"],
)  # fmt: skip
def test_the_first_bad_row_is_named_and_bad_rows_can_be_skipped(
    tmp_path: Path, content: bytes, columns: str | None, messages: list[str], good: int
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        read(tmp_path, path, columns=columns)
    assert str(refused.value).startswith(f"{path}, {messages[0]}")
    options = read_options(columns, skip_bad=True)
    found = BadRows(skip=True)
    for _ in open_log(path, options).blocks(AccessTables(DimsByKey()), found, 0):
        pass
    assert len(found.problems) == len(messages)
    for text, message in zip(found.problems, messages, strict=True):
        assert text.startswith(f"{path}, {message}")
    skipped = read(tmp_path, path, columns=columns, skip_bad=True)
    assert len(skipped) == good
    assert skipped.notes[-1].startswith(f"{len(messages)} bad rows (")
    assert says(skipped.notes[-1], "first", path, messages[0])


@pytest.mark.parametrize(
    "row",
    ["item_id, a ", "item_id,\x0ca", "item_id,a\x0cb", "item_id,a\r"],
    ids=["spaces", "\\f a", "a \\f b", "\\r"],
)
def test_a_bad_row_changes_no_other_row(tmp_path: Path, row: str) -> None:
    """Rows beside a bad one are read by another parser."""
    (path := tmp_path / "log").write_bytes(f"user,item_id\n{row}\n".encode())
    expected = keys_by_step(read(tmp_path, path))
    path.write_bytes(f"user,item_id\n{row}\nuser,too,many\n".encode())
    assert keys_by_step(read(tmp_path, path, skip_bad=True)) == expected


def test_an_unprintable_column_name_is_escaped_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=mentions("line 2", "\\x7f_id")):
        read_text(tmp_path, "log", "\x7f_id,n\n,\n5,6\n")


def test_the_first_bad_row_of_a_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = {"item_id": [3, -1, None, 4], "timestamp": [1.0, 2.0, 3.0, float("nan")]}
    pl.DataFrame(table).write_parquet(path)
    with pytest.raises(DataError, match=mentions("row 2", "item_id", "-1", 0)):
        read(tmp_path, path)
    assert keys_by_step(read(tmp_path, path, skip_bad=True)) == [[3]]
    with pytest.raises(DataError, match=mentions("row 4", "timestamp")):
        pl.DataFrame(table)[[0, 0, 0, 3]].write_parquet(path)
        read(tmp_path, path)
    pl.DataFrame({"item_id": [True]}).write_parquet(path)
    with pytest.raises(DataError, match=mentions("item_id", "integers")):
        read(tmp_path, path)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\nx,y\n", None, "no column looks like a key; expected --columns key=NAME with one of a, b"),
        ("id,b\n1,y\n", "key=c", "expected a column 'c', got the columns id, b"),
        ("id,b\n1,y\n", "kez=id", "expected ROLE=NAME with a role of key, time.*got 'kez=id'"),
        ("id,b\n1,y\n", "time=id,b", "expected one column with the role time, got 'b' as another"),
        ("id,id\n1,y\n", None, "expected the column 'id' once, got it twice"),
        ("a:token\tb\n1\t2\n", None, "column 'b'; expected NAME:TYPE once"),
    ],
)
def test_a_header_that_does_not_fit_the_columns_is_refused(
    tmp_path: Path, text: str, columns: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_text(tmp_path, "log", text, columns=columns)


LONG_ROWS = 60_000


@cache
def long_file(form: str) -> bytes:
    """Return a log whose rows are as long as no other."""
    numbers = np.random.default_rng(1).integers(1, 2**40, LONG_ROWS).tolist()
    if form == "oracle":
        return oracle_general(numbers)
    head = {"csv": b"id\n", "svm": b"", "recbole": b"id:token\n"}[form]
    row = b"1 %d:1\n" if form == "svm" else b"%d\n"
    return head + b"".join(row % each for each in numbers)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, zlib.compress])
@pytest.mark.parametrize("form", ["csv", "svm", "oracle", "recbole"])
def test_a_compressed_file_that_ends_early_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes], form: str
) -> None:
    """The part that is there does not tell that some is missing."""
    path, packed = tmp_path / "log", pack(long_file(form))
    path.write_bytes(packed)
    assert len(read(tmp_path, path, batch=1)) == LONG_ROWS
    for share in (0.3, 0.99):
        path.write_bytes(packed[: int(share * len(packed))])
        with pytest.raises(
            DataError, match=r"log: cannot be (decompressed|read): .*(ended|end-of-stream|incomplete)"
        ):
            read(tmp_path, path, batch=1)


def test_a_packed_file_is_read_to_the_end_of_its_last_frame(tmp_path: Path) -> None:
    path, frames = tmp_path / "log", [zstandard.compress(b"id\n"), *[zstandard.compress(b"7\n" * 9)] * 3]
    path.write_bytes(b"".join(frames))
    assert len(read(tmp_path, path, batch=1)) == 27
    path.write_bytes(b"".join(frames)[:-1])
    with pytest.raises(DataError, match=mentions("ended")):
        read(tmp_path, path)


def test_missing_files_and_missing_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=mentions("files", "found")):
        read(tmp_path, tmp_path / "*.nothing")
    (tmp_path / "one.csv").write_text("iteration,worker,key\n1,1,1\n")
    (tmp_path / "two.csv").write_text("item_id\n1\n")
    with pytest.raises(DataError, match=mentions("two.csv", "CSV", "item_id", "one.csv")):
        read(tmp_path, tmp_path / "one.csv", tmp_path / "two.csv")
