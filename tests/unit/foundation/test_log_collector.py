"""The log collector adds up the counts of all PSs once, however often they are sent."""

from __future__ import annotations

import re
import socket
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.concurrency import in_thread
from foundation.errors import DataError
from foundation.logs.collector import COUNT, ROW, UpdateLogCollector, run_collector, send
from foundation.logs.merge import merge_logs
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.ps.logs import PsLogs
from switch_harness.wording import mentions


def rows(ps: int, counts: dict[tuple[int, int], int]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the rows that a PS sends for (job, key) -> updates."""
    return np.array([(job, ps, key, updates) for (job, key), updates in counts.items()], ROW)


def octets(array: np.ndarray[tuple[int], np.dtype[np.void]]) -> bytes:
    return COUNT.pack(len(array)) + array.tobytes()


def added_up(folder: Path) -> dict[tuple[int, int], int]:
    """Return (job, key) -> updates of the merged log."""
    (folder / "run").mkdir()
    merge_logs(folder, folder / "run")
    sums = pl.read_parquet(folder / "run/updates.parquet").group_by("job", "key").agg(pl.col("updates").sum())
    return {(job, key): updates for job, key, updates in sums.iter_rows()}


counts = st.dictionaries(
    st.tuples(st.integers(1, 3), st.integers(0, 2**64 - 1)), st.integers(1, 2**40), min_size=1, max_size=6
)


@settings(max_examples=50)
@given(sent=st.lists(st.tuples(st.integers(0, 3), counts), max_size=10))
def test_the_counts_of_all_ps_are_added(sent: list[tuple[int, dict[tuple[int, int], int]]]) -> None:
    """Each PS sends all its counts so far, now and then."""
    model: dict[int, Counter[tuple[int, int]]] = {}
    with TemporaryDirectory() as name:
        collector = UpdateLogCollector(Path(name))
        for ps, new in sent:
            so_far = model.setdefault(ps, Counter())
            so_far.update(new)
            assert collector.receive(octets(rows(ps, dict(so_far)))) == so_far.total()
        assert collector.updates == sum(each.total() for each in model.values())
        assert collector.servers == len(model)
        assert added_up(Path(name)) == dict(sum(model.values(), Counter()))


GOOD = octets(rows(1, {(1, 2): 3}))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "statistics: expected at least one row, got none in 0 bytes"),
        (octets(rows(1, {})), "statistics: expected at least one row, got none in 8 bytes"),
        (GOOD[:-1], "statistics: expected 28 bytes for 1 row, got 27"),
        (GOOD + GOOD, "statistics: expected 28 bytes for 1 row, got 56"),
        (octets(np.concatenate([rows(3, {(1, 2): 3}), rows(2, {(1, 2): 3})])), "got those of PSs [2, 3]"),
        (octets(rows(1, {(1, 2): 4})), "PS 1 sent 4 updates, and 5 before: counts must not decrease"),
    ],
)  # fmt: skip
def test_wrong_statistics_are_refused_and_change_nothing(tmp_path: Path, sent: bytes, message: str) -> None:
    collector = UpdateLogCollector(tmp_path)
    collector.receive(octets(rows(1, {(1, 2): 5})))
    with pytest.raises(DataError, match=re.escape(message)):
        collector.receive(sent)
    assert (collector.updates, added_up(tmp_path)) == (5, {(1, 2): 5})


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_no_octets_break_the_log_collector(noise: bytes, seed: int) -> None:
    good = bytearray(octets(rows(1, {(1, 2): 3, (2, 2**63): 1})))
    at = seed % len(good)
    good[at : at + len(noise)] = noise
    with TemporaryDirectory() as name:
        collector = UpdateLogCollector(Path(name))
        try:
            assert collector.receive(bytes(good)) == collector.updates
        except DataError:
            assert (collector.updates, list(Path(name).iterdir())) == (0, [])


async def test_statistics_are_received_at_the_socket_of_a_killed_collector(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    async with run_collector(tmp_path, path) as collector:
        for sent in (rows(1, {(1, 7): 3}), rows(0, {(1, 8): 2, (4, 8): 1}), rows(1, {(1, 7): 4})):
            await in_thread(send, sent, path)
        with pytest.raises(DataError, match=mentions("PS", "PS 1", 3, 4, "before")):
            await in_thread(send, rows(1, {(1, 7): 3}), path)
    assert collector.updates == 7
    assert added_up(tmp_path) == {(1, 7): 4, (1, 8): 2, (4, 8): 1}
    assert not path.exists()


async def test_a_client_that_leaves_before_its_answer_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with run_collector(tmp_path, path) as collector:
        for last in (b"", b"x"):
            with socket.socket(socket.AF_UNIX) as gone:
                gone.connect(str(path))
                gone.sendall(last)
        await in_thread(send, rows(1, {(1, 7): 3}), path)
    assert collector.updates == 3


def parameter_server(*updates: int) -> ParameterServer[object]:
    """Return a PS of one job whose first keys have these update counts."""
    core: ParameterServer[object] = ParameterServer(0, 1, KeySpace(len(updates)), {2: 1}, lambda: 0)
    for position, count in enumerate(updates):
        set_updates(core, position, count)
    return core


def set_updates(core: ParameterServer[object], position: int, count: int) -> None:
    row = core.stores[2]._head_cells(np.array([position]))
    core.server.state.cells["word"][0, row] = count


async def test_a_server_sends_its_counts_when_the_counts_have_changed(tmp_path: Path) -> None:
    core = parameter_server(3, 0, 1)
    keys = core.stores[2].contents().keys
    async with run_collector(tmp_path, tmp_path / "socket") as collector:
        logs = PsLogs(tmp_path / "own", 0, 0, tmp_path / "socket")
        await in_thread(logs.send_updates, core.stores)
        await in_thread(logs.send_updates, core.stores)
        set_updates(core, 1, 5)
        await in_thread(logs.send_updates, core.stores)
        await in_thread(logs.close)
    assert collector.updates == 9
    assert sorted(file.name for file in tmp_path.glob("*.parquet")) == [
        "updates-ps-0-0.parquet", "updates-ps-0-1.parquet",
    ]  # fmt: skip
    assert not (tmp_path / "own").exists()
    assert added_up(tmp_path) == dict(zip([(2, int(key)) for key in keys], (3, 5, 1), strict=True))


@pytest.mark.parametrize("path", [None, Path("missing")])
def test_without_a_collector_a_server_writes_its_own_log(
    path: Path | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = parameter_server(3, 1)
    logs = PsLogs(tmp_path, 0, 0, path and tmp_path / path)
    logs.send_updates(core.stores)
    logs.close()
    assert sum(added_up(tmp_path).values()) == 4
    reported = [record.getMessage() for record in caplog.records]
    why = f"log collector {tmp_path / 'missing'}: [Errno 2] No such file or directory"
    assert reported == (
        [] if path is None else [f"{why}; the update counts of PS 0 are written to its own log"]
    )
