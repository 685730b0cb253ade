"""Update logs are read, and their faults are reported by file, place, column and value."""

from __future__ import annotations

import gzip
import random
import re
import zlib
from dataclasses import FrozenInstanceError
from pathlib import Path

import polars as pl
import pytest

from foundation.errors import DataError
from foundation.logs.counts import Counts
from foundation.logs.update_log import UpdateLog, first_line, read_head
from switch_harness.wording import mentions, says_in_one_line

RIGHT = "; an integer from 0 to 2^64 - 1 expected"


def csv(tmp_path: Path, text: str) -> UpdateLog:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return UpdateLog.open(path)


def parquet(tmp_path: Path, columns: dict[str, list[int | None]]) -> UpdateLog:
    path = tmp_path / "log.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return UpdateLog.open(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_header_and_some_columns_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"log.{kind}"
    frame = pl.DataFrame(
        {"key": [2**64 - 1, 0], "worker": [1, 2], "job": [3, 4]}, schema_overrides={"key": pl.UInt64}
    )
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    log = UpdateLog.open(path)
    assert (log.path, log.names, log.is_parquet) == (path, ("key", "worker", "job"), kind == "parquet")
    rows = log.scan(["job", "key"]).collect()
    assert rows.to_dict(as_series=False) == {"job": [3, 4], "key": [2**64 - 1, 0]}
    assert set(rows.schema.values()) == {pl.UInt64}
    assert log.fault(["job", "key"]) is None


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("1,x", "line 3: column key is 'x'" + RIGHT),
        (",7", "line 3: column job is empty" + RIGHT),
        ("1", "line 3: column key is empty" + RIGHT),
        ("1,-3", "line 3: column key is '-3'" + RIGHT),
        ("1,3.5", "line 3: column key is '3.5'" + RIGHT),
        (f"1,{2**64}", f"line 3: column key is '{2**64}'" + RIGHT),
        (f"1,{'1' * 41}", f"line 3: column key is '{'1' * 41}'" + RIGHT),
        ("1,2,3", "line 3: 3 values; the header names 2 columns"),
        ("x,y", "line 3: column job is 'x'" + RIGHT),
        ("1,2\nx,3", "line 4: column job is 'x'" + RIGHT),
        (f"1,{2**64 - 1}", None),
        (f"1,{'0' * 40}", None),
        (" +1 , 2 ", None),
    ],
)
def test_the_first_fault_of_a_csv_is_named_with_line_and_column(
    tmp_path: Path, row: str, fault: str | None
) -> None:
    log = csv(tmp_path, f"job,key\n5,6\n{row}\n9,z9\n" if fault else f"job,key\n5,6\n{row}\n")
    assert log.fault(["job", "key"]) == (fault and f"{log.path}, {fault}")


def test_blank_lines_before_the_header_are_no_fault(tmp_path: Path) -> None:
    log = csv(tmp_path, "\n\njob,key\n5,6\nx,7\n")
    assert log.fault(["job"]) == f"{log.path}, line 5: column job is 'x'{RIGHT}"


def test_only_the_columns_asked_for_can_be_at_fault(tmp_path: Path) -> None:
    log = csv(tmp_path, "job,key,note\n1,2,x\n")
    assert log.fault(["key", "job"]) is None
    assert says_in_one_line(log.fault(["note"]), "line 2", log.path, RIGHT)


def test_a_byte_order_mark_is_skipped_and_invalid_utf_8_is_a_fault(tmp_path: Path) -> None:
    """Spreadsheets write a byte-order mark; invalid UTF-8 is a value like any other."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfjob,key\n1,2\n")
    log = UpdateLog.open(path)
    assert log.names == ("job", "key") and log.fault(["job"]) is None
    path.write_bytes(b"job,key\n1,\xff\n")
    fault = UpdateLog.open(path).fault(["job", "key"])
    assert fault == f"{path}, line 2: column key is '\N{REPLACEMENT CHARACTER}'{RIGHT}"


ROWS = b"job,key\n1,2\n"
# One uncompressed block of 12 bytes, the last (RFC 8878).
ZSTANDARD = b"\x28\xb5\x2f\xfd" + b"\x20\x0c" + bytes([12 << 3 | 1, 0, 0]) + ROWS


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(ROWS), ZSTANDARD, *(zlib.compress(ROWS, level) for level in (1, 6, 9))],
    ids=["gzip", "zstd", "zlib 1", "zlib 6", "zlib 9"],
)
def test_a_csv_that_is_compressed_is_unpacked(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(packed)
    assert UpdateLog.open(path).scan(["key"]).collect().to_dicts() == [{"key": 2}]


@pytest.mark.parametrize("name", ["column-beyond-the-end", "metadata-without-a-part"])
def test_damaged_parquet_files_are_refused(name: str) -> None:
    """Polars panics, which is no `Exception`."""
    path = Path(__file__).parents[2] / "vectors" / "parquet" / f"{name}.parquet"
    with pytest.raises(DataError, match=mentions("read", name)):
        Counts.of_logs([path]).of_part(0)


def test_a_csv_field_beyond_the_limit_is_a_fault(tmp_path: Path) -> None:
    log = csv(tmp_path, f"job,key\n1,2\n3,{'9' * 200_000}\n")
    assert log.fault(["job"]) == f"{log.path}, line 3: field larger than field limit (131072)"


def test_a_line_break_within_quotes_counts(tmp_path: Path) -> None:
    log = csv(tmp_path, 'job,note\n1,"a\r\nb"\nx,c\n')
    assert log.fault(["job"]) == f"{log.path}, line 4: column job is 'x'{RIGHT}"
    # The break stays in the value.
    value = repr("a\r\nb")
    assert says_in_one_line(log.fault(["note"]), "line 3", log.path, value, RIGHT)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"job": [1, 2], "key": [3, None]}, "row 2: column key is null" + RIGHT),
        ({"job": [1, -2, -9], "key": [3, 4, 5]}, "row 2: column job is -2" + RIGHT),
        ({"job": [None, 1], "key": [-4, 1]}, "row 1: column job is null" + RIGHT),
        ({"job": [0, 1], "key": [0, 1]}, None),
        # A 0 is none.
        ({"job": [0], "key": [-5]}, "row 1: column key is -5" + RIGHT),
        ({"job": [0, 1, -2], "key": [0, 1, 2]}, "row 3: column job is -2" + RIGHT),
    ],
)
def test_the_first_fault_of_a_parquet_file_is_named_with_row_and_column(
    tmp_path: Path, columns: dict[str, list[int | None]], fault: str | None
) -> None:
    log = parquet(tmp_path, columns)
    assert log.fault(["job", "key"]) == (fault and f"{log.path}, {fault}")


def test_a_log_is_an_immutable_value(tmp_path: Path) -> None:
    log = csv(tmp_path, "job,key\n1,2\n")
    assert log == UpdateLog.open(log.path) and hash(log) == hash(UpdateLog.open(log.path))
    with pytest.raises(FrozenInstanceError):
        setattr(log, "names", ())  # noqa: B010  # mypy knows better


def test_a_deleted_file_has_no_fault(tmp_path: Path) -> None:
    for log in (csv(tmp_path, "job\n1\n"), parquet(tmp_path, {"job": [1]})):
        log.path.unlink()
        assert log.fault(["job"]) is None


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        UpdateLog.open(path)
    return str(refused.value)


def test_invalid_headers_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for header, why in (
        ("job, key", "expected a column name without spaces around it, got ' key'"),
        ("job;key", "'job;key' has no comma; columns are separated by commas"),
        ("job\tkey", r"'job\tkey' has no comma; columns are separated by commas"),
        ("job|key", "'job|key' has no comma; columns are separated by commas"),
        ("job,key,job", "expected the column 'job' once, got it twice"),
    ):
        path.write_text(f"{header}\n1\n")
        assert refusal(path) == f"{path}, line 1: {why}"
    for header in ("key", "key;,job"):
        path.write_text(f"{header}\n1\n")
        assert UpdateLog.open(path).names == tuple(header.split(","))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert refusal(path) == f"{path}: cannot be read: No such file or directory"
    text = "not a regular file; a log or training set is read more than once"
    assert refusal(tmp_path) == f"{tmp_path}: {text}"
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: is empty; expected an update log in Parquet or CSV"
    path.write_bytes(random.Random(1).randbytes(1000))
    text = "is neither text nor Parquet, which begins with PAR1; expected an update log in Parquet or CSV"
    assert refusal(path) == f"{path}: {text}"
    path.write_bytes(b"PAR1 and nothing more")
    assert re.fullmatch(re.escape(f"{path}: cannot be read: ") + "[^\n]+", refusal(path))


def test_only_integers_are_read_of_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    pl.DataFrame({"job": [1], "key": [1.0]}).write_parquet(path)
    log = UpdateLog.open(path)
    assert log.scan(["job"]).collect().to_dicts() == [{"job": 1}]
    with pytest.raises(DataError, match=mentions("Float64", path)):
        log.scan(["job", "key"])


def test_names_with_the_signs_of_a_pattern_are_names(tmp_path: Path) -> None:
    for path in (tmp_path / "log[1].csv", tmp_path / "log[1].parquet"):
        frame = pl.DataFrame({"job": [4]})
        frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
        log = UpdateLog.open(path)
        assert log.scan(["job"]).collect().to_dicts() == [{"job": 4}]
        assert log.fault(["job"]) is None
    pl.DataFrame({"job": [-4]}).write_parquet(path)
    assert UpdateLog.open(path).fault(["job"]) == f"{path}, row 1: column job is -4{RIGHT}"


def test_the_head_of_a_file_and_the_first_line_of_an_error_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 100)
    head = read_head(path)
    assert path.read_bytes().startswith(head) and 1000 <= len(head) < 10_000
    assert first_line(ValueError("what is wrong\nand how to\nrepair it")) == "what is wrong"
    assert first_line(ValueError("one line")) == "one line"


def test_no_log_at_all_is_an_error_of_the_data() -> None:
    with pytest.raises(DataError, match=mentions("update", "least")):
        Counts.of_logs([])
