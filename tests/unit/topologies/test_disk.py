"""A run whose disk is full waits: its time stands still, and its agents' writers try again."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiment.liveness import Liveness
from foundation.errors import DataError, DiskFullError
from hosts import agent
from hosts.agent import write_when_there_is_room
from topologies import disk
from topologies.disk import watch_disk


async def test_a_full_disk_counts_as_a_process_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(disk, "_POLL_S", 0.0)
    states, seen = iter([False, True, True, False, True, False]), list[tuple[bool, int]]()
    liveness, end = Liveness(), asyncio.Event()

    def is_full(_folder: Path) -> bool:
        seen.append((liveness.all_up, liveness.deaths))
        state = next(states, None)
        if state is None:
            end.set()
        return bool(state)

    monkeypatch.setattr(disk, "is_full", is_full)
    watching = asyncio.ensure_future(watch_disk(tmp_path, liveness))
    await end.wait()
    watching.cancel()
    assert seen[:7] == [(True, 0), (True, 0), (False, 1), (False, 1), (True, 1), (False, 2), (True, 2)]
    assert len(caplog.messages) == 4 and str(tmp_path) in caplog.messages[0]


class Disk:
    """A disk that is full for a number of writes."""

    def __init__(self, n_full: int) -> None:
        self.remaining, self.written = n_full, 0

    def write(self) -> None:
        if self.remaining:
            self.remaining -= 1
            raise DiskFullError("a log: no room")
        self.written += 1


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Replace standard input by a pipe; return its other end."""
    monkeypatch.setattr(agent, "_FULL_DISK_RETRY_S", 0.0)
    saved, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    yield writing
    os.dup2(saved, 0)
    os.close(saved)


@pytest.mark.parametrize("n_full", [0, 1, 5])
def test_a_writer_on_a_full_disk_tries_again_and_logs_one_warning(
    stdin: int, n_full: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    full_disk = Disk(n_full)
    os.write(stdin, b"a command that waits\n")
    write_when_there_is_room(full_disk.write)
    os.close(stdin)
    assert (full_disk.written, full_disk.remaining) == (1, 0)
    assert len(caplog.messages) == min(n_full, 1)


def test_a_writer_raises_the_error_once_its_input_is_closed(stdin: int) -> None:
    os.close(stdin)
    full_disk = Disk(1)
    with pytest.raises(DiskFullError):
        write_when_there_is_room(full_disk.write)
    write_when_there_is_room(full_disk.write)
    assert full_disk.written == 1


def test_errors_other_than_a_full_disk_are_raised_at_once(stdin: int) -> None:
    def write() -> None:
        raise DataError("a log: no such folder")

    with pytest.raises(DataError):
        write_when_there_is_room(write)
    os.close(stdin)
