"""Parts that a PS writes in the background are complete, and errors are raised once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import HotlineError
from hotline_agents.ps.logs import PsLogs
from hotline_agents.ps.rpcs import CONNECTION_RECORD

OFFSET = 1_000_000


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[PsLogs]:
    with closing(PsLogs(tmp_path, 7, OFFSET)) as opened:
        yield opened


def connection_records(*workers: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    found = np.zeros(len(workers), CONNECTION_RECORD)
    found["worker"], found["job"], found["arrival"] = workers, 2, 5_000
    return found


def test_all_parts_are_written_in_order(logs: PsLogs, tmp_path: Path) -> None:
    logs.write_connections_in_background([connection_records(1, 2), connection_records(3)])
    logs.write_connections_in_background([connection_records(4)])
    logs.settle()
    there = pl.read_parquet(tmp_path / "connections-ps-7-*.parquet")
    assert there["worker"].to_list() == [1, 2, 3, 4]
    assert there.drop("worker").unique().rows(named=True) == [{"time_us": 1_005, "ps": 7, "job": 2}]


def test_an_error_of_writing_logs_is_raised_once(logs: PsLogs, tmp_path: Path) -> None:
    logs.write_connections_in_background([connection_records(1)])
    logs.settle()
    for file in tmp_path.iterdir():
        file.unlink()
    tmp_path.rmdir()
    logs.write_connections_in_background([connection_records(2)])
    with pytest.raises((OSError, HotlineError)):
        logs.settle()
    logs.settle()
