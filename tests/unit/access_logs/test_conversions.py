"""Files of other formats: Arrow and lists of a fixed size are read, the others converted as errors say."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import DataError
from switch_harness.wording import mentions
from tests.harness.access_logs import keys_by_step, read

_ITEMS = [[1, 2], [2, 3], [3, 4]]
_FRAME = pl.DataFrame({"item_ids": _ITEMS, "label": [1, 0, 1]})
_WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "Parquet": pl.DataFrame.write_parquet,
    "Arrow": pl.DataFrame.write_ipc,
    "Arrow's stream": pl.DataFrame.write_ipc_stream,
}


@pytest.mark.parametrize("width", [None, 2], ids=["lists", "lists of a fixed size"])
@pytest.mark.parametrize("format", _WRITERS)
def test_logs_with_lists_of_keys_are_read(tmp_path: Path, format: str, width: int | None) -> None:
    frame = (
        _FRAME if width is None else _FRAME.with_columns(pl.col("item_ids").cast(pl.Array(pl.Int32, width)))
    )
    _WRITERS[format](frame, tmp_path / "log")
    found = read(tmp_path, tmp_path / "log")
    assert keys_by_step(found) == _ITEMS and found.notes[0].startswith(f"log: {format}; keys in item_ids")


def test_lines_that_are_lists_of_json_are_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"{json.dumps(row)}\n" for row in _ITEMS))
    assert keys_by_step(read(tmp_path, tmp_path / "log")) == _ITEMS


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, item_id=np.array([5, 6, 7]), label=np.zeros(3))
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([5, 6, 7]))
    return file.getvalue()


_CONVERTED = {
    "NumPy's npz": _npz(),
    "NumPy's npy": _npy(),
}


@pytest.mark.parametrize("format", _CONVERTED)
def test_the_python_line_in_an_error_converts_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(_CONVERTED[format])
    with pytest.raises(DataError, match=mentions(format)) as refused:
        read(tmp_path, tmp_path / "file")
    exec(str(refused.value).partition("makes of it: ")[2], {})
    assert keys_by_step(read(tmp_path, tmp_path / "log.parquet")) == [[5], [6], [7]]


def _zip_with(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"1")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_zip_with("archive/data.pkl"), ("torch.save", "torch.load")),
        (_zip_with("xl/workbook.xml"), ("Excel", "read_excel")),
        (_zip_with("clicks.csv"), ("zip", "unpacked")),
        (b"PK\x03\x04" + bytes(50), ("zip", "unpacked")),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), ("HDF5", "read_hdf")),
        (pickle.dumps({"a": [1, 2]}), ("pickle", "read_pickle")),
        (b"ORC\x00\x01" + bytes(50), ("ORC", "read_orc")),
        (b"SQLite format 3\x00" + bytes(50), ("SQLite", "read_sql")),
    ],
)  # fmt: skip
def test_an_error_names_the_format_and_the_function_that_reads_the_format(
    tmp_path: Path, content: bytes, words: tuple[str, ...]
) -> None:
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(DataError, match=mentions("log", *words)):
        read(tmp_path, tmp_path / "log")


def test_a_text_that_begins_as_a_binary_format_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("ORC_id,item_id\n1,5\n1,6\n")
    assert len(read(tmp_path, tmp_path / "log").keys) == 3
