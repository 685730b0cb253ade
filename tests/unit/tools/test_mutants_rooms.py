"""The rooms of `make mutants` exist, and its timeouts work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import tomli

from switch_harness.wording import mentions
from tools.mutants import child
from tools.mutants.parts import part_of

ROOT = Path(__file__).parents[3]
ROOMS = tomli.loads((ROOT / "tools" / "mutants" / "rooms.toml").read_text())


@pytest.mark.parametrize("room", ROOMS)
def test_the_mutated_sources_and_their_tests_exist(room: str) -> None:
    assert all(list((ROOT / source).glob("*.py")) for source in ROOMS[room]["sources"])
    tests = ROOMS[room].get("plain", []) + ROOMS[room]["tests"]
    assert all((ROOT / test).exists() for test in tests)


def test_parts_cover_the_suite_and_have_separate_folders() -> None:
    parts = [part_of(f"{k}/3") for k in (1, 2, 3)]
    assert sorted(index for every, _ in parts for index in range(10)[every]) == list(range(10))
    assert [folder for _, folder in parts] == ["1of3", "2of3", "3of3"]
    assert part_of("1/1") == (slice(0, None, 1), "")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/0", "2", "1/2/3", "a/b"])
def test_an_invalid_part_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=mentions("K/N", 1, text)):
        part_of(text)


def test_agents_can_run_uncompiled() -> None:
    program = """
import numba
from tools.mutants.interpreted import interpret
interpret()
from hotline_agents import warm
warm.warm_worker()
assert not isinstance(warm.operate, numba.core.dispatcher.Dispatcher)
print(warm.operate.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("operate\n", "")


@pytest.fixture
def cat() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_child_that_runs_too_long_has_no_status(
    cat: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.mutants.child.time.sleep", lambda seconds: None)
    assert child.status_of(cat.pid, 1.0) is None


def test_a_suspended_child_has_time(cat: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    assert cat.stdin is not None
    end = cat.stdin.close
    cat.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, cat.pid, os.WSTOPPED | os.WNOWAIT)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1000:
            cat.send_signal(signal.SIGCONT)
            end()
            os.waitid(os.P_PID, cat.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr("tools.mutants.child.time.sleep", sleep)
    assert child.status_of(cat.pid, 1.0) == 0
    assert sum(slept) > 1.0
