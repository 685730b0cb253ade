"""Options of reading logs, and later lines that do not fit: each error names the option that helps."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from foundation.checkout import ROOT
from foundation.errors import DataError
from foundation.logs.access import table_rows as row_conversion
from foundation.logs.access.column_roles import add_columns, parse_columns
from foundation.logs.access.dialect import SAMPLE_LINES
from foundation.logs.access.guess import ColumnProfile
from foundation.logs.access.kinds import INTEGER_KEY, TEXT_KEY, WHOLE_FLOAT_KEY, Kind, kind_of_keys
from foundation.logs.access.steps import Steps
from switch_harness.wording import mentions, says, says_in_one_line
from tests.harness.access_logs import accesses_by_table, keys_by_step, read
from tests.harness.lookalikes import other, rows_of, signatures, table


def read_text(folder: Path, text: str, columns: str | None = None, **options: Any) -> Steps:
    (folder / "log").write_text(text)
    return read(folder, folder / "log", columns=columns, **options)


class Late(NamedTuple):
    """A log whose line after the sampled ones does not fit."""

    head: str  # a line before the others; empty for none
    line: str  # with the line's number for {}
    late: str  # the line that does not fit
    value: str  # that the error names
    flag: str
    options: dict[str, Any]  # of the command line that the flag stands for
    accesses: int = 1  # of the late line, with that option


LATE = {
    "text among integers": Late(
        "user,item", "7,{}", "7,B00X", "'B00X'", "--text item", {"columns": "text=item"}, 2
    ),
    "hexadecimal": Late("user,key", "7,{}", "7,0af", "'0af'", "--text key", {"columns": "text=key"}),
    "text in a column": Late("", "{}", "x9", "'x9'", "--text 1", {"columns": "text=1"}),
    "more values": Late("user,item", "7,{}", "7,8,9", "3 values", "--skip-bad", {"skip_bad": True}, 0),
    "fewer values": Late("", "7 {}", "7", "1 value", "--skip-bad", {"skip_bad": True}, 0),
    "no date": Late(
        "time,item", "2019-10-01 00:00:00 UTC,{}", "noon,5", "'noon'", "--ignore time",
        {"columns": "ignore=time"},
    ),
    "no number": Late("time,item", "{},7", "noon,5", "'noon'", "--ignore time", {"columns": "ignore=time"}),
    "unknown operation": Late(
        "item,op", "{},get", "5,fetch", "'fetch'", "--ignore op", {"columns": "ignore=op"}
    ),
    "no weight": Late(
        "key,op,op_count", "{},get,1", "5,get,x", "'x'", "--ignore op_count", {"columns": "ignore=op_count"}
    ),
    "no JSON": Late("", '["item_id": {}]', '{"item_id": 5', "item_id", "--format", {"skip_bad": True}, 0),
    "no libffm": Late("", "1 0:{}:1 1:5:1", "1 0:x:1", "0:x:1", "--format", {"skip_bad": True}, 0),
    "no web log": Late(
        "", '10.0.0.1 - - <17/May/2015:10:05:03 +0000> "GET /{} HTTP/1.1" 200 5', "stopped", "stopped",
        "--format", {"skip_bad": True}, 0,
    ),
    "text in a list": Late("", "{}~", "7 x8", "'x8'", "--text 1+", {"columns": "text=1+"}, 2),
}  # fmt: skip


def _line(late: Late, at: int) -> str:
    """Return a line with a key for {}, a list of any length for ~, and the brackets of JSON and web logs."""
    text = late.line.replace("{}", str(at * 7 % 101)).replace("~", " 5" * (at % 5))
    return text.translate(str.maketrans("[]<>", "{}[]"))


_LINES = SAMPLE_LINES + 200


@pytest.mark.parametrize("kind", LATE)
def test_an_error_on_a_later_line_names_the_option_that_helps(tmp_path: Path, kind: str) -> None:
    late = LATE[kind]
    head = [late.head] if late.head else []
    lines = [*head, *(_line(late, at) for at in range(_LINES))]
    text = "\n".join([*lines, late.late, *lines[-20:]]) + "\n"
    with pytest.raises(DataError) as refused:
        read_text(tmp_path, text)
    message = str(refused.value)
    assert f"{tmp_path / 'log'}, line {len(lines) + 1}: " in message
    assert late.value in message and late.flag in message and "read as" in message
    before = len(read_text(tmp_path, "\n".join([*lines, *lines[-20:]]) + "\n", **late.options).accesses)
    after = read_text(tmp_path, text, **late.options)
    assert len(after.accesses) == before + late.accesses
    if late.accesses == 0:
        assert says(after.notes[-1], 1, "0.1%")


def test_a_weight_stands_for_equal_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_conversion, "_ACCESSES_AT_ONCE", 5)
    weights = [3, 0, 1, 7, 2, 9, 0, 0, 4]
    rows = [f"{at},{at % 3},{at % 2}" for at in range(len(weights))]
    weighted = "time,user_id,item_id,n\n" + "".join(
        f"{row},{weight}\n" for row, weight in zip(rows, weights, strict=True)
    )
    repeated = "time,user_id,item_id\n" + "".join(
        f"{row}\n" * weight for row, weight in zip(rows, weights, strict=True)
    )
    for batch in (1, 4):
        found = read_text(tmp_path, weighted, "weight=n", batch=batch)
        assert rows_of(found) == rows_of(read_text(tmp_path, repeated, batch=batch))
    with pytest.raises(DataError, match=mentions("line 5", "-7", 0, "16,777,216")):
        read_text(tmp_path, weighted.replace(",7", ",-7"), "weight=n")
    with pytest.raises(DataError, match=mentions("--weight", "counts")):
        read_text(tmp_path, "iteration,worker,key,n\n1,1,5,3\n", "weight=n")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("key=3", [[5], [6]]),
        ("key=1", [[1], [2]]),
        ("key=2,ignore=3", [[3], [4]]),
        ("ignore=1,ignore=2", [[5], [6]]),
    ],
)
def test_columns_are_named_by_their_number(tmp_path: Path, columns: str, expected: list[list[int]]) -> None:
    for header in ("", "user_id,item_id,shop_id\n"):
        found = read_text(tmp_path, f"{header}1,3,5\n2,4,6\n", columns)
        assert keys_by_step(found) == expected
    with pytest.raises(DataError, match=mentions(4, 1, 2, 3)):
        read_text(tmp_path, "1,3,5\n2,4,6\n", "key=4")


def test_repeated_columns_add_up() -> None:
    joined = add_columns(("key=a", "time=t", "key=b"), text=("a", "c"), ignore=(), weight=("n",))
    assert joined == "key=a,time=t,key=b,text=a,text=c,weight=n"
    columns = parse_columns(joined)
    assert (columns.key, columns.time, columns.text, columns.weight) == (("a", "b"), "t", ("a", "c"), "n")
    assert add_columns((), text=()) is None
    with pytest.raises(DataError, match=mentions("u", "another")):
        parse_columns("time=t,key=a,time=u")


@pytest.mark.parametrize("separator", ["tab", "\\t", "\t"])
def test_a_separator_can_be_named(tmp_path: Path, separator: str) -> None:
    text = "1,5\t2,6\n" * 3
    found = read_text(tmp_path, text, "key=2,text=2", separator=separator)
    assert [len(row) for row in rows_of(found)] == [1, 1, 1] and len(found.keys) == 1
    assert "TSV" in found.notes[0]


def test_a_separator_can_have_several_characters(tmp_path: Path) -> None:
    found = read_text(tmp_path, "user_id#~#item_id\n1#~#5\n2#~#5\n", separator="#~#")
    assert [len(row) for row in rows_of(found)] == [2, 2] and len(found.keys) == 3


def test_a_format_can_be_named(tmp_path: Path) -> None:
    lists = read_text(tmp_path, "5 6\n7 8\n", format="lists")
    assert keys_by_step(read_text(tmp_path, "5 6\n7 8\n", "key=1+", format="lists")) == [[5, 6], [7, 8]]
    assert keys_by_step(lists) == [[6], [8]]
    assert len(read_text(tmp_path, "a b\nc d\n", format="column").keys) == 2
    with pytest.raises(DataError, match=mentions("--format", "xml")):
        read_text(tmp_path, "5\n", format="xml")
    with pytest.raises(DataError, match=mentions("format", 2)):
        read_text(tmp_path, "5 6\n7 8\n", format="json")


def test_cells_with_several_values_are_one_text_if_asked(tmp_path: Path) -> None:
    text = "movieId,genres\n1,War|Drama\n2,War\n3,Drama|War\n4,Drama\n"
    divided = read_text(tmp_path, text, "key=genres")
    assert [len(row) for row in rows_of(divided)] == [2, 1, 2, 1] and len(divided.keys) == 2
    assert "cells of genres divided at '|'" in divided.notes[0]
    whole = read_text(tmp_path, text, "key=genres,text=genres")
    assert [len(row) for row in rows_of(whole)] == [1, 1, 1, 1] and len(whole.keys) == 4


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("row numbers", "keys in user_id, item_id, 2 tables; left out: id, price"),
        ("ratings", "keys in user_id, item_id, 2 tables, time in timestamp; left out: rating"),
        ("trace", "keys in obj_id, time in time; left out: size"),
    ],
)
def test_the_first_note_names_the_chosen_and_the_left_out_columns(
    tmp_path: Path, kind: str, chosen: str
) -> None:
    (tmp_path / "log").write_bytes(table(kind, ",", has_header=True).data("\n"))
    assert read(tmp_path, tmp_path / "log").notes[0] == f"log: CSV; {chosen}"


def test_files_with_integer_keys_and_text_keys_are_refused_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    (tmp_path / "b.csv").write_text("user,item\n1,x2\n")
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    with pytest.raises(DataError, match=mentions("b.csv", "a.csv")):
        read(tmp_path, *files)
    assert len(read(tmp_path, *files, columns="text=item").keys) == 3


def test_files_in_several_formats_have_a_note_each(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id\n1\n")
    (tmp_path / "b.tsv").write_text("time\titem_id\n1\t2\n")
    notes = read(tmp_path, tmp_path / "a.csv", tmp_path / "b.tsv").notes
    assert re.search(r"b\.tsv: TSV; keys in item_id, time in time", notes[1])


def test_a_zip_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(DataError, match=mentions("log", "unpacked")):
        read(tmp_path, tmp_path / "log")


@pytest.mark.parametrize(
    ("values", "is_time"),
    [
        (["2019-10-01 00:00:00 UTC", "2019-10-01 00:00:01 UTC"], True),
        (["2019-10-01 00:00:00+02:00", "2019-10-01T00:00:00Z"], True),
        (["17/May/2015:10:05:03 +0000"], True),
        (["1500000000", "1500000001"], True),
        (["2053013555631882655"], False),
        (["5", "6"], False),
        (["x"], False),
    ],
)
def test_values_of_times_are_recognised(values: list[str], is_time: bool) -> None:
    assert ColumnProfile(pl.Series("t", values)).is_time == is_time


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([*map(str, range(100, 200))], INTEGER_KEY),
        ([*map(str, range(100, 197)), "x", "-1", ""], INTEGER_KEY),  # bad rows
        ([*map(str, range(100, 197)), "1X", "2X", "3X"], TEXT_KEY),
        ([*map(str, range(100, 197)), "NA", "NA", "NA"], INTEGER_KEY),
        ([*map(str, range(100, 197)), "-1", "-1", "-1"], TEXT_KEY),
        (["7", "08"], TEXT_KEY),
        (["7.0", "8.0"], WHOLE_FLOAT_KEY),
        (["a", "b", "7"], TEXT_KEY),
    ],
)
def test_the_kind_of_keys_follows_from_most_values(values: list[str], kind: Kind) -> None:
    assert kind_of_keys(pl.Series([value or None for value in values])) == kind


def test_whole_floats_are_keys(tmp_path: Path) -> None:
    assert keys_by_step(read_text(tmp_path, "item_id\n7.0\n8.0\n")) == [[7], [8]]
    with pytest.raises(DataError, match=mentions("line 3", "item_id", "8.5")):
        read_text(tmp_path, "item_id\n7.0\n8.5\n9.0\n10.0\n")


def test_an_offset_from_utc_is_applied(tmp_path: Path) -> None:
    text = "time,item_id\n2019-10-01 02:00:00+02:00,1\n2019-10-01 00:30:00+00:00,2\n2019-10-01 00:15:00Z,3\n"
    assert keys_by_step(read_text(tmp_path, text.replace(" 00:15:00Z", "T00:15:00Z"))) == [[1], [3], [2]]


def test_reads_and_writes_are_apart(tmp_path: Path) -> None:
    lookalike = other("kvcache")
    (tmp_path / "log").write_bytes(lookalike.data("\n"))
    found = read(tmp_path, tmp_path / "log")
    assert found.has_pulls and signatures(rows_of(found)) == signatures(lookalike.accesses)
    assert says(found.notes[0], "op_time", "op_count")


def test_the_sample_log_equals_the_output_of_its_generator(tmp_path: Path) -> None:
    generator = runpy.run_path(str(ROOT / "examples" / "clicks.py"))
    log = ROOT / "examples" / "clicks.csv"
    assert log.read_text().splitlines() == generator["lines"]()
    found = read(tmp_path, log)
    assert says_in_one_line(found.notes[0], "clicks.csv", "CSV", "user_id", "item_id", 2)
    assert accesses_by_table(found) == {"user_id": 12_000, "item_id": 12_000}


def test_a_bad_row_has_its_line_number_after_comments_and_spare_spaces(tmp_path: Path) -> None:
    lines = ["# a graph", "", "# from to", "1   5", " 2 6 ", "x 7", "3 8"]
    with pytest.raises(DataError, match=mentions("line 6", "column 1", "x")):
        read_text(tmp_path, "\n".join(lines))
    rows = rows_of(read_text(tmp_path, "\n".join(lines), skip_bad=True))
    assert [len(row) for row in rows] == [2, 2, 2]
