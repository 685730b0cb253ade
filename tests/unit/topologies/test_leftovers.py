"""One run at a time, and telling what a dead one has left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from topologies import leftovers
from topologies.errors import PreflightError
from topologies.leftovers import marked_processes, only_run

SLEEP = [sys.executable, "-c", "input()"]


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Processes that would be killed, among those with a mark of the test's own: runs go on beside it."""
    seen: list[int] = []
    monkeypatch.setattr(leftovers, "MARK", f"HOTLINE_TEST_{os.getpid()}")
    monkeypatch.setattr(leftovers, "_kill", seen.append)
    monkeypatch.setattr(leftovers, "_wait_until_gone", lambda processes: None)
    yield seen


def test_a_second_run_is_refused_while_the_first_goes_on(lock: Path, killed: list[int]) -> None:
    with only_run([], lock), pytest.raises(PreflightError, match="a run is going on"), only_run([], lock):
        pass
    with only_run([], lock):
        pass


def test_processes_started_in_a_run_are_marked(lock: Path, killed: list[int]) -> None:
    with only_run([], lock):
        child = subprocess.Popen(SLEEP, stdin=subprocess.PIPE)
        try:
            assert child.pid in marked_processes()
        finally:
            child.communicate(b"\n")
    assert leftovers.MARK not in os.environ


def test_the_next_run_removes_what_is_marked_and_nothing_else(lock: Path, killed: list[int]) -> None:
    with only_run([], lock):
        marked = subprocess.Popen(SLEEP, stdin=subprocess.PIPE)
    unmarked = subprocess.Popen(SLEEP, stdin=subprocess.PIPE)
    try:
        with only_run([], lock) as found:
            assert found
        assert marked.pid in killed
        assert unmarked.pid not in killed
        assert os.getpid() not in killed
    finally:
        marked.communicate(b"\n")
        unmarked.communicate(b"\n")


def test_only_interfaces_that_the_killed_run_named_are_removed(
    lock: Path, killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "interface_exists", lambda name: name in ("s1-eth1", "s1-eth9"))
    deleted: list[str] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: deleted.append(command[-1]))
    lock.write_text('{"interfaces": ["s1-eth1", "s1-eth2"]}')
    with only_run([], lock) as found:
        assert found.interfaces == ("s1-eth1",)
    assert deleted == ["s1-eth1"]


def test_a_lock_of_a_dead_process_is_free(lock: Path, killed: list[int]) -> None:
    program = f"""
import os, signal
from pathlib import Path
from topologies import leftovers
from topologies.leftovers import only_run
leftovers.MARK = {leftovers.MARK!r}  # or it would end the runs that go on beside this test
with only_run(["s1-eth1"], Path({str(lock)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert lock.read_text() == '{"interfaces": ["s1-eth1"]}'
    with only_run([], lock):
        pass
    assert lock.read_text() == ""
