"""Part files appear atomic_path or not at all, and continue the numbers of earlier ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import DataError
from foundation.logs.columns import CONNECTIONS
from foundation.logs.merge import last_updates, merge_logs
from foundation.logs.parts import Parts, atomic_path, save_arrays, write_text
from switch_harness.wording import mentions
from tests.harness.snapshots import exactly

ROW = {"time_us": [2**40], "ps": 1, "worker": [7], "job": 2}


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_file_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "text"
    write_text(file, "old")
    with atomic_path(file) as partial:
        partial.write_text("new")
        with pytest.raises(DataError, match=mentions("another", "process")):
            write_text(file, "other")
        assert file.read_text() == "old"
    assert (names(tmp_path), file.read_text()) == (["text"], "new")


def test_a_stale_partial_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "text.partial").write_text("of a killed process, and longer")
    write_text(tmp_path / "text", "new")
    assert (names(tmp_path), (tmp_path / "text").read_text()) == (["text"], "new")


def test_a_part_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    part = tmp_path / "connections-ps-1-0.parquet"
    part.write_text("not Parquet")
    with pytest.raises(DataError, match=mentions("Parquet", part)):
        merge_logs(tmp_path, tmp_path)
    assert part.exists()


def test_new_parts_continue_the_numbers_of_existing_parts(tmp_path: Path) -> None:
    first = Parts(tmp_path, "connections-ps-1", CONNECTIONS)
    first.write(ROW)
    first.write(ROW)
    (tmp_path / "connections-ps-2-0.parquet").touch()
    Parts(tmp_path, "connections-ps-1", CONNECTIONS).write(ROW)
    assert names(tmp_path) == [
        *(f"connections-ps-1-{number}.parquet" for number in range(3)),
        "connections-ps-2-0.parquet",
    ]


def test_a_part_has_the_logs_columns_in_their_order_and_types(tmp_path: Path) -> None:
    shuffled = {name: ROW[name] for name in sorted(ROW)}
    Parts(tmp_path, "part", CONNECTIONS).write(shuffled)
    written = pl.read_parquet(tmp_path / "part-0.parquet")
    assert written.schema == CONNECTIONS
    assert written.rows() == [(2**40, 1, 7, 2)]


def test_an_empty_part_is_not_written(tmp_path: Path) -> None:
    parts = Parts(tmp_path, "part", CONNECTIONS)
    parts.write(dict.fromkeys(CONNECTIONS, np.array([], dtype=np.int64)))
    assert names(tmp_path) == []
    parts.write(ROW)
    assert names(tmp_path) == ["part-0.parquet"]


@pytest.mark.parametrize("columns", [{"time_us": [1], "ps": 1, "worker": [1]}, ROW | {"more": 1}])
def test_other_columns_than_the_logs_are_refused(tmp_path: Path, columns: dict[str, object]) -> None:
    text = f"part: expected the columns {sorted(CONNECTIONS)}, got {sorted(columns)}"
    with pytest.raises(ValueError, match=exactly(text)):
        Parts(tmp_path, "part", CONNECTIONS).write(columns)
    assert names(tmp_path) == []


def test_a_file_is_not_visible_before_its_content_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        seen.append(names(tmp_path))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    Parts(tmp_path, "part", CONNECTIONS).write(ROW)
    save_arrays(tmp_path / "dump.npz", {"a": np.arange(3), "b": np.zeros((2, 2))})
    write_text(tmp_path / "run.json", "{}")
    assert seen == [
        ["part-0.parquet.partial"],
        ["dump.npz.partial", "part-0.parquet"],
        ["dump.npz", "part-0.parquet", "run.json.partial"],
    ]
    assert names(tmp_path) == ["dump.npz", "part-0.parquet", "run.json"]
    assert (tmp_path / "run.json").read_text() == "{}"
    with np.load(tmp_path / "dump.npz") as arrays:
        assert arrays.files == ["a", "b"]
        assert arrays["a"].tolist() == [0, 1, 2] and arrays["b"].shape == (2, 2)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (pl.exceptions.ComputeError("disk full\nand more"), "disk full"),
        (
            pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)"),
            "No space left on device",
        ),
        (OSError("10 requested and 9 written"), "10 requested and 9 written: the disk may be full"),
    ],
)
def test_a_failed_write_leaves_no_file(tmp_path: Path, failure: Exception, reason: str) -> None:
    path = tmp_path / "part.parquet"
    text = f"{path}: cannot be written: {reason}"
    with pytest.raises(DataError, match=exactly(text)), atomic_path(path) as partial:
        partial.write_text("half")
        raise failure
    assert names(tmp_path) == []


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError), atomic_path(tmp_path / "part"):
        raise KeyError("a bug")
    assert not (tmp_path / "part").exists()


def test_missing_folders_and_folders_in_place_of_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "run.json.partial").mkdir()
    for file, why in (("missing/run.json", "No such file or directory"), ("run.json", "Is a directory")):
        with pytest.raises(DataError, match=exactly(f"{tmp_path / file}: cannot be written: {why}")):
            write_text(tmp_path / file, "{}")
    assert names(tmp_path) == ["run.json.partial"]


def test_only_parts_are_merged_and_each_into_its_log(tmp_path: Path) -> None:
    """Other Parquet files are removed with the parts."""
    parts = tmp_path / "parts"
    parts.mkdir()
    row = pl.DataFrame([(1, 1, 1, 1)], schema=CONNECTIONS, orient="row")
    for name in ("connections-ps-10-0", "connections-ps-2-0"):
        row.write_parquet(parts / f"{name}.parquet")
    stray = pl.DataFrame({"anything": [1]})
    others = ["connections-ps-1-0.parquet.old", "xconnections-ps-1-0.parquetx"]
    for name in (*others, "connections-host-1-0.parquet"):
        stray.write_parquet(parts / name)
    merge_logs(parts, tmp_path)
    assert pl.read_parquet(tmp_path / "connections.parquet").height == 2
    assert names(parts) == others


def test_the_newest_updates_are_in_the_part_with_the_highest_number(tmp_path: Path) -> None:
    for name in ("updates-ps-1-9", "updates-ps-1-10", "updates-ps-12-3", "operations-worker-1-50"):
        (tmp_path / f"{name}.parquet").touch()
    newest = sorted(file.name for file in last_updates(tmp_path))
    assert newest == ["updates-ps-1-10.parquet", "updates-ps-12-3.parquet"]
