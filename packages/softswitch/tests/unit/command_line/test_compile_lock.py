"""One process compiles and others wait: for as long as it works or is stopped, and not for one that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from softswitch import cache
from softswitch.cache import compile_lock
from softswitch.progress import Activity, ProcessState, read_activity
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says

HOLDER = "from softswitch.cache import compile_lock\nwith compile_lock():\n    print(flush=True)\n    input()"
LIMIT_S, LOOKS = 0.1, 60
"""A limit of a wait, and many more looks than it has."""


@pytest.fixture(autouse=True)
def _short_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_LOCK_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(cache, "_POLL_INTERVAL_S", 0.001)


@contextmanager
def holder() -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the lock, and waits for a line or its end."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        try:
            yield process
        finally:
            process.kill()


def take_lock() -> None:
    with compile_lock():
        pass


def test_a_stopped_process_that_compiles_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[Activity] = []

    def read(pid: int) -> Activity:
        seen.append(read_activity(pid))
        return seen[-1]

    monkeypatch.setattr(cache, "read_activity", read)
    with holder() as process:
        os.kill(process.pid, signal.SIGSTOP)
        waiting = threading.Thread(target=take_lock)
        waiting.start()
        wait_for(lambda: len(seen) > LOOKS)
        assert waiting.is_alive()
        assert seen[-1].state is ProcessState.IS_STOPPED
        os.kill(process.pid, signal.SIGCONT)
        process.communicate("\n")
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
    assert says(capfd.readouterr().err, "softswitch", f"process {process.pid}", "waiting")


def test_a_process_that_holds_the_lock_and_hangs_is_not_waited_for() -> None:
    with holder() as process:
        take_lock()
        assert process.poll() is None


def test_the_end_of_a_process_frees_the_lock() -> None:
    with holder() as process:
        process.kill()
    take_lock()
    with holder():  # whose process id replaces that of this process in the file
        pass
    take_lock()
