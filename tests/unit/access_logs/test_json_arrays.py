"""Files that are one array of JSON: the rows of JSON lines, in any layout, and the place of an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import DataError
from foundation.logs.access import log_files
from foundation.logs.access.formats.json_array import _Elements
from foundation.logs.access.log_files import open_stream
from foundation.logs.access.steps import Steps
from switch_harness.effort import examples
from switch_harness.wording import mentions, says
from tests.harness.access_logs import keys_by_step, read

LAYOUTS: dict[str, Callable[[list[Any]], str]] = {
    "one line": json.dumps,
    "no spaces": lambda rows: json.dumps(rows, separators=(",", ":")),
    "indented": lambda rows: json.dumps(rows, indent=2) + "\n",
    "a row a line": lambda rows: "[" + ",\n".join(map(json.dumps, rows)) + "]\n",
    "CRLF": lambda rows: json.dumps(rows, indent=1).replace("\n", "\r\n") + "\r\n",
    "byte order mark": lambda rows: "\ufeff" + json.dumps(rows, indent=1),
    "spaces around": lambda rows: (
        "\n\n  " + json.dumps(rows, indent="\t", separators=(" ,\n", " : ")) + " \n \n"
    ),
    "no ASCII": lambda rows: json.dumps(rows, ensure_ascii=False),
}
BLOCK_BYTES = (1, 3, 20, 100, 1 << 20)


def read_array(folder: Path, text: str, **options: Any) -> Steps:
    (folder / "log.json").write_text(text, "utf-8")
    return read(folder, folder / "log.json", **options)


def _objects(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Any]:
    keys = draw(
        st.sampled_from([st.integers(0, 2**64 - 2), st.text('ab é€\U0001f600"\\\n,[]{}', min_size=1)])
    )
    fields = {
        "item_id": keys,
        "tags": st.lists(st.integers(0, 9), max_size=3),
        "price": st.floats(allow_nan=False, allow_infinity=False),
        "seller": st.dictionaries(st.sampled_from("ab"), st.none() | st.booleans()),
    }
    rows: list[Any] = draw(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=20))
    return rows


@st.composite
def rows(draw: st.DrawFn) -> list[Any]:
    lists = st.lists(st.lists(st.integers(0, 2**64 - 2), max_size=4), min_size=1, max_size=20)
    return _objects(draw) if draw(st.booleans()) else draw(lists.filter(any))


def _read_as(folder: Path, text: str, columns: str | None = None) -> list[list[int]] | str:
    try:
        return keys_by_step(read_array(folder, text, columns=columns))
    except DataError as error:
        return "no access" if "no access" in str(error) else "bad"


@given(rows=rows(), layout=st.sampled_from(list(LAYOUTS)), block_bytes=st.sampled_from(BLOCK_BYTES))
@settings(max_examples=examples(400), deadline=None)
def test_an_array_has_the_rows_of_the_same_json_lines(rows: list[Any], layout: str, block_bytes: int) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    columns = "key=list" if isinstance(rows[0], list) else "key=item_id,tags"
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        expected = _read_as(Path(folder), lines + lines, columns)  # one line of a list would be an array
        patched.setattr(log_files, "BLOCK_BYTES", block_bytes)
        assert _read_as(Path(folder), LAYOUTS[layout](rows + rows), columns) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["integers", "texts"])
def test_an_array_of_keys_has_an_access_an_element(tmp_path: Path, layout: str, kind: str) -> None:
    keys: list[Any] = [at * 7 % 50 for at in range(200)]
    if kind == "texts":
        keys = [f"kéy {key}, [x]" for key in keys]
    found = read_array(tmp_path, LAYOUTS[layout](keys))
    assert (len(found), len(found.accesses), len(found.keys)) == (200, 200, 50)
    assert found.notes[0] == (
        "log.json: a JSON array; keys in value" if kind == "integers"
        else "log.json: a JSON array; text keys in value"
    )  # fmt: skip
    assert [len(step) for step in keys_by_step(read_array(tmp_path, LAYOUTS[layout](keys), batch=20))] == (
        [20] * 10
    )


def test_lists_in_an_array_are_rows_of_keys(tmp_path: Path) -> None:
    assert keys_by_step(read_array(tmp_path, "[[1, 2], [], [2, 3]]")) == [[1, 2], [2, 3]]
    assert len(read_array(tmp_path, '[["a", "b"], ["b"]]').keys) == 2
    assert keys_by_step(read_array(tmp_path, "[[1, 2], [], [2, 3]]", batch=2)) == [[1, 2, 3]]


def test_the_fields_of_objects_have_roles(tmp_path: Path) -> None:
    rows = [{"user_id": at % 3, "item_id": at % 5, "time": 100 - at, "price": at / 4} for at in range(60)]
    found = read_array(tmp_path, json.dumps(rows))
    assert found.tables == ("user_id", "item_id")
    assert found.notes[0] == (
        "log.json: a JSON array; keys in user_id, item_id, 2 tables, time in time; left out: price"
    )
    assert "sorted by time, because its rows are not in that order" in found.notes
    batches = [{"iteration": at // 4, "worker": 1, "key": at % 7} for at in range(12)]
    assert keys_by_step(read_array(tmp_path, json.dumps(batches))) == [
        [0, 1, 2, 3],
        [0, 4, 5, 6],
        [1, 2, 3, 4],
    ]
    assert len(read_array(tmp_path, json.dumps(rows), format="json", columns="key=item_id").keys) == 5


def test_lines_that_are_lists_stay_rows(tmp_path: Path) -> None:
    assert keys_by_step(read_array(tmp_path, "[1, 2]\n[2, 3]\n")) == [[1, 2], [2, 3]]
    assert keys_by_step(read_array(tmp_path, "[1, 2]\n")) == [[1], [2]]


@pytest.mark.parametrize("text", ["[7 8 9],1\n[8],2\n", "[1, 2],5\n[3],6\n", "[17/May] GET\n[18/May] GET\n"])
def test_texts_that_only_begin_with_a_bracket_are_no_arrays(tmp_path: Path, text: str) -> None:
    try:
        assert "JSON" not in read_array(tmp_path, text).notes[0]
    except DataError as refused:
        assert not says(refused, "of the array")


SAMPLE = json.dumps(
    [{"item_id": at, "tags": ["a,]", None, 1.5e3], "x": {"y": 30 * "z"}} for at in range(4)], indent=1
)


@pytest.mark.parametrize("block_bytes", BLOCK_BYTES)
def test_an_array_that_ends_early_is_refused_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(log_files, "BLOCK_BYTES", block_bytes)
    for end in range(1, len(SAMPLE)):
        _check_refusal(tmp_path, SAMPLE[:end])


@pytest.mark.parametrize("block_bytes", BLOCK_BYTES)
@pytest.mark.parametrize("inserted", ["", "x", "}", "]", ",", '"', "\n", "\\"])
def test_a_wrong_character_in_an_array_is_refused_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inserted: str, block_bytes: int
) -> None:
    monkeypatch.setattr(log_files, "BLOCK_BYTES", block_bytes)
    for at in range(SAMPLE.index("{") + 1, len(SAMPLE), 1 if block_bytes == 20 else 7):
        _check_refusal(tmp_path, SAMPLE[:at] + inserted + SAMPLE[at + 1 :])


def _check_refusal(folder: Path, text: str) -> None:
    """Compare the place of an error with the one that Python's parser finds in the whole text."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        line = error.lineno
    else:
        return
    with pytest.raises(DataError, match=mentions("log.json", f"line {line}", "column")) as refused:
        read_array(folder, text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('[{"item_id": 1}, {"item_id": 2}, 5]', 3),
        ('[{"item_id": 1}, [5], {"item_id": 2}]', 2),
        ("[[1], 2, [2]]", 2),
        ("[[1], [2], [[3]]]", 3),
        ('[1, {"item_id": 2}, 3]', 2),
        ("[1, 2, null]", 3),
        ("[1, 2, -3]", 3),
        ('[{"item_id": 1}, {"item_id": 2}, {"x": 5}]', 3),
    ],
)
def test_an_element_that_is_no_row_is_named_and_can_be_skipped(
    tmp_path: Path, text: str, number: int
) -> None:
    with pytest.raises(DataError, match=mentions("log.json", f"element {number}", "expected")):
        read_array(tmp_path, text)
    found = read_array(tmp_path, text, skip_bad=True)
    assert len(found) == 2 and says(found.notes[-1], "1 bad row", f"element {number}")


@pytest.mark.parametrize("text", ["[]", " [ ]\n", "[{}, {}]", '[{"a": 1}]'])
def test_an_array_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=mentions("log.json", "expected")):
        read_array(tmp_path, text)


@pytest.mark.parametrize("number", ["1" * 5_000, "[" * 100_000])
def test_a_number_or_depth_beyond_the_parser_is_refused_with_the_place(tmp_path: Path, number: str) -> None:
    with pytest.raises(DataError, match=mentions("log.json", "line 2", "element 2")):
        read_array(tmp_path, f'[{{"item_id": 1}},\n{number}]')


def test_only_a_block_of_an_array_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "BLOCK_BYTES", 100)
    (tmp_path / "log.json").write_text(json.dumps([{"item_id": at} for at in range(2_000)]))
    with open_stream(tmp_path / "log.json") as stream:
        elements = _Elements(tmp_path / "log.json", stream)
        assert max(len(elements._text) for _ in elements) < 300
