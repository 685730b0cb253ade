"""The writer of the RPC log keeps all rows in order, and reports failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.backlog import LIMIT
from foundation.protocol.codec import Caller
from hosts.keys import KeySpace
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.logs import Origin, RpcWriter
from switch_harness.waiting import PATIENCE_S

ORIGIN = Origin(1, 2, "baseline", 0, 0.5, 0)
ROWS = 4


class Block:
    """A client that logs numbered rows, and the rows that were written."""

    def __init__(self) -> None:
        self.client = HotsetClient(Caller(1, 1, 1), 1, KeySpace(1), lambda: 0)
        self.written: list[tuple[list[int], str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self._next = 0

    def write(self, rows: NDArray[np.void], origin: Origin) -> None:
        assert self.gate.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        self.written.append((rows["iteration"].tolist(), origin.arm))

    def log(self, number: int) -> None:
        state = self.client.state
        for _ in range(number):
            state.log[state.header.rows].iteration = self._next
            state.header.rows += 1
            self._next += 1

    @contextmanager
    def writer(self, limit: int = LIMIT) -> Iterator[RpcWriter]:
        with closing(RpcWriter(self.write, ROWS, limit)) as writer:
            writer.begin(self.client)
            yield writer


def test_the_log_of_a_block_is_written_at_the_end_of_the_block() -> None:
    block = Block()
    with block.writer() as writer:
        block.log(3)
        writer.end(block.client, ORIGIN)
        assert block.written == [([0, 1, 2], "baseline")]
        writer.begin(block.client)
        block.log(2)
        writer.end(block.client, ORIGIN)
    assert block.written[1:] == [([3, 4], "baseline")]


def test_a_block_does_not_wait_for_the_disk() -> None:
    """However far the writer falls behind, no row is lost or overwritten."""
    block = Block()
    block.gate.clear()
    with block.writer() as writer:
        for _ in range(5):
            block.log(ROWS)
            writer.swap(block.client, ORIGIN)
        block.log(1)
        assert block.written == []
        block.gate.set()
        writer.end(block.client, ORIGIN)
    assert [number for rows, _ in block.written for number in rows] == list(range(5 * ROWS + 1))


def test_rows_beyond_the_speed_of_the_disk_are_dropped_and_counted() -> None:
    """Rows that are being written are not overwritten by later ones."""
    block = Block()
    block.gate.clear()
    with block.writer(limit=2) as writer:
        arrays = []
        for _ in range(5):
            arrays.append(block.client.state.log)
            block.log(ROWS)
            writer.swap(block.client, ORIGIN)
        assert (writer.dropped, block.written) == (3 * ROWS, [])
        # Two wait, and the others take turns.
        assert len({id(array) for array in arrays}) == 4
        block.gate.set()
        writer.end(block.client, ORIGIN)
        assert writer.dropped == 3 * ROWS
    assert [number for rows, _ in block.written for number in rows] == list(range(2 * ROWS))


def test_errors_of_writing_are_raised_at_the_end() -> None:
    block = Block()
    block.failure = DataError("the disk is full")
    with block.writer() as writer:
        block.log(ROWS)
        writer.swap(block.client, ORIGIN)
        block.log(1)
        with pytest.raises(DataError, match="the disk is full"):
            writer.end(block.client, ORIGIN)
        block.failure = None
        writer.begin(block.client)
        block.log(1)
        writer.end(block.client, ORIGIN)
    assert block.written == [([ROWS + 1], "baseline")]
