"""A backlog of rows for a slow disk never blocks, and counts the rows that it drops."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.logs.backlog import Backlog
from switch_harness.waiting import PATIENCE_S, wait_for


class Disk:
    """A disk that writes nothing until its gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.written: list[int] = []

    def write(self, rows: list[int]) -> None:
        assert self.gate.wait(PATIENCE_S)
        self.written += rows


def test_rows_beyond_the_limit_are_dropped_and_counted() -> None:
    disk = Disk()
    with closing(Backlog[list[int]](limit=3)) as backlog:
        stored = [backlog.put([number] * 10, disk.write) for number in range(5)]
        assert (stored, disk.written) == ([True] * 3 + [False] * 2, [])
        disk.gate.set()
        assert backlog.settle() == [[0] * 10, [1] * 10, [2] * 10]
        assert (disk.written, backlog.dropped) == ([0] * 10 + [1] * 10 + [2] * 10, 20)
        # There is room again.
        assert backlog.put([7], disk.write)
        assert backlog.settle() == [[7]]
        assert backlog.dropped == 20


def test_written_rows_make_room_for_further_rows() -> None:
    disk = Disk()
    disk.gate.set()
    with closing(Backlog[list[int]](limit=1)) as backlog:
        assert backlog.put([1], disk.write)
        wait_for(lambda: disk.written == [1])
        # Its future is done a moment later.
        wait_for(lambda: backlog.put([2], disk.write))
        backlog.settle()
    assert disk.written == [1, 2]


@given(batches=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12), limit=st.integers(1, 4))
def test_every_row_is_written_or_counted(batches: list[list[int]], limit: int) -> None:
    disk = Disk()
    with closing(Backlog[list[int]](limit)) as backlog:
        for batch in batches:
            backlog.put(batch, disk.write)
        disk.gate.set()
        backlog.settle()
    assert disk.written == [row for batch in batches[:limit] for row in batch]
    assert backlog.dropped == sum(map(len, batches[limit:]))


def test_rows_put_after_the_end_of_the_thread_are_written_at_once() -> None:
    """At the interpreter's exit, executors are shut down before exit functions are called."""
    written: list[int] = []
    backlog = Backlog[list[int]]()
    backlog.put([1], written.extend)
    backlog.close()
    assert backlog.put([2], written.extend) and written == [1, 2]
    assert backlog.settle() == [[1], [2]]
    backlog.put([3], lambda batch: written.remove(batch[0]))
    with pytest.raises(ValueError, match="not in list"):
        backlog.settle()
