"""Merging of part files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import DataError, reason_of
from foundation.logs.columns import CONNECTIONS, OPERATIONS, RPC, UPDATES
from foundation.logs.merge import finish_merge, last_updates, merge_logs
from foundation.logs.parts import save_arrays
from switch_harness.disk import files_of_at_most
from switch_harness.wording import mentions, says_in_one_line


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    return folder


def write_updates(parts: Path, ps: int, part: int, updates: int) -> None:
    row = {"job": 1, "ps": ps, "key": 2**63 + ps, "updates": updates}
    pl.DataFrame([row], schema=UPDATES).write_parquet(parts / f"updates-ps-{ps}-{part}.parquet")


def test_parts_of_all_agents_are_joined_and_removed(parts: Path, tmp_path: Path) -> None:
    for agent, part in ((0, 0), (0, 1), (1, 0)):
        row = {"time_us": part, "ps": agent, "worker": 1, "job": 1}
        part_file = parts / f"connections-ps-{agent}-{part}.parquet"
        pl.DataFrame([row], schema=CONNECTIONS).write_parquet(part_file)
    merge_logs(parts, tmp_path)
    assert len(pl.read_parquet(tmp_path / "connections.parquet")) == 3
    assert list(parts.iterdir()) == []


def test_only_the_last_update_log_of_a_server_counts(parts: Path, tmp_path: Path) -> None:
    for part in (0, 2, 10):
        write_updates(parts, ps=0, part=part, updates=part)
    write_updates(parts, ps=1, part=0, updates=7)
    assert sorted(file.name for file in last_updates(parts)) == [
        "updates-ps-0-10.parquet",
        "updates-ps-1-0.parquet",
    ]
    merge_logs(parts, tmp_path)
    merged = pl.read_parquet(tmp_path / "updates.parquet")
    assert sorted(merged["updates"].to_list()) == [7, 10]


def test_text_columns_become_the_logs_types(parts: Path, tmp_path: Path) -> None:
    row = {name: 0 for name in RPC} | {"arm": "offload", "op": "push", "class": "all_hit", "measured": True}
    pl.DataFrame([row]).write_parquet(parts / "rpc-worker-1-0.parquet")
    merge_logs(parts, tmp_path)
    assert pl.read_parquet_schema(tmp_path / "rpc.parquet") == RPC


def test_rows_of_a_repeated_block_are_marked_as_not_measured(parts: Path, tmp_path: Path) -> None:
    """Windows are from 20 to 40 and from 60 to 70, ends included; the first of all rows was discarded."""
    text = {"arm": "offload", "op": "push", "class": "all_hit"}
    for log, schema, time in (("rpc", RPC, "t_send_us"), ("operations", OPERATIONS, "scheduled_us")):
        rows = [
            {name: 0 for name in schema} | {name: text[name] for name in text if name in schema}
            | {time: at, "measured": at > 5}
            for at in (5, 19, 20, 40, 41, 65, 71)
        ]  # fmt: skip
        pl.DataFrame(rows).write_parquet(parts / f"{log}-worker-1-0.parquet")
    merge_logs(parts, tmp_path, [(20, 40), (60, 70)])
    for log in ("rpc", "operations"):
        merged = pl.read_parquet(tmp_path / f"{log}.parquet")
        assert merged["measured"].to_list() == [False, True, False, False, True, False, True]


def test_a_run_without_logs_still_gets_files_that_can_be_read(parts: Path, tmp_path: Path) -> None:
    merge_logs(parts, tmp_path)
    assert pl.read_parquet(tmp_path / "rpc.parquet").schema == RPC
    assert pl.read_parquet(tmp_path / "operations.parquet").is_empty()


def test_a_part_with_missing_columns_is_named_and_all_parts_stay(parts: Path, tmp_path: Path) -> None:
    write_updates(parts, ps=0, part=0, updates=1)
    bad = parts / "connections-ps-0-0.parquet"
    pl.DataFrame({"time_us": [1], "job": [1]}).write_parquet(bad)
    with pytest.raises(DataError, match=mentions("connections-ps-0-0.parquet", "column")):
        merge_logs(parts, tmp_path)
    assert len(list(parts.iterdir())) == 2


def test_a_log_that_cannot_be_written_is_named_and_its_parts_stay(parts: Path, tmp_path: Path) -> None:
    write_updates(parts, ps=0, part=0, updates=1)
    with files_of_at_most(100), pytest.raises(DataError, match=mentions("rpc.parquet", "written")):
        merge_logs(parts, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["parts"]
    assert len(list(parts.iterdir())) == 1
    finish_merge(tmp_path)
    assert len(pl.read_parquet(tmp_path / "updates.parquet")) == 1


def test_parts_of_a_killed_run_are_merged_once(parts: Path, tmp_path: Path) -> None:
    write_updates(parts, ps=0, part=0, updates=5)
    finish_merge(tmp_path)
    assert not parts.exists()
    assert pl.read_parquet(tmp_path / "updates.parquet")["updates"].to_list() == [5]
    # Killed behind its merge: what was left behind takes nothing away.
    parts.mkdir()
    finish_merge(tmp_path)
    assert not parts.exists()
    assert pl.read_parquet(tmp_path / "updates.parquet")["updates"].to_list() == [5]
    finish_merge(tmp_path)


def test_a_short_write_of_numpy_is_explained(tmp_path: Path) -> None:
    with files_of_at_most(1000), pytest.raises(DataError, match=mentions("a.npz", "written")):
        save_arrays(tmp_path / "a.npz", {"a": np.zeros(10_000)})
    with files_of_at_most(1000), pytest.raises(OSError) as short:
        np.save(tmp_path / "a.npy", np.zeros(10_000))
    assert says_in_one_line(reason_of(short.value), 10000, 109, "written")
