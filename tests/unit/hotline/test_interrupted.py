"""Ctrl-C ends `hotline` with one line and exit code 130, even while it starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotline.cli.commands import hotline
from switch_harness.waiting import PATIENCE_S, wait_for
from tests.harness.extras import CHECKOUT, needs_setup

SCRIPT = [str(CHECKOUT / "hotline")]
INSTALLED = [sys.executable, "-c", "from hotline.cli import main; main()"]
"""The command that pip installs."""


def is_python(process: int) -> bool:
    """Whether the shell has been replaced by the interpreter."""
    return Path(os.readlink(f"/proc/{process}/exe")).name.startswith("python")


def imports(library: str) -> Callable[[int], bool]:
    return lambda process: library in Path(f"/proc/{process}/maps").read_text()


@pytest.fixture
def silent_switch() -> Iterator[str]:
    """Yield the address of a socket that accepts but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("command", "moment"),
    [
        pytest.param(SCRIPT, is_python, marks=needs_setup),
        pytest.param(SCRIPT, imports("cygrpc"), marks=needs_setup),
        (INSTALLED, imports("numpy")),
        (INSTALLED, imports("cygrpc")),
        (INSTALLED, imports("pydantic_core")),
    ],
)
def test_ctrl_c_while_hotline_starts_ends_with_one_line(
    command: list[str], moment: Callable[[int], bool], silent_switch: str
) -> None:
    process = subprocess.Popen(
        [*command, "status", "--switch", silent_switch],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or moment(process.pid))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, output, errors) == (130, "", "hotline: interrupted\n")


def test_ctrl_c_in_a_command_that_needs_no_switch_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hotline.cli.hotset.check_output", interrupt)
    result = CliRunner().invoke(
        hotline, ["hotset", "build", "log", "--top-k", "1", "-o", str(tmp_path / "hot")]
    )
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "hotline: interrupted\n")


@pytest.mark.parametrize(
    ("work", "command"),
    [
        ("controller.hotset.choice.build", ("hotset", "build", "log", "--top-k", "1", "-o", "hot")),
        ("hotline.results.curve.coverage", ("hotset", "curve", "log.csv", "log.csv")),
        ("hotline.cli.report.check_logs", ("logs", "check", "log.csv")),
        ("analysis.compare.compare_runs", ("compare", "one", "two")),
        ("hotline.runs.open_cluster", ("report", "--logs", ".")),
        ("hotline_simulator.run.run_simulation", ("simulate",)),
    ],
)
def test_ctrl_c_while_a_thread_reads_a_log_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, command: tuple[str, ...]
) -> None:
    ended = threading.Event()

    def read(*_: object, **__: object) -> None:
        assert threading.current_thread() is not threading.main_thread()
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait()

    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("key,updates\n1,2\n")
    monkeypatch.setattr(work, read)
    # In the background of a script it is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = CliRunner().invoke(hotline, command)
    finally:
        signal.signal(signal.SIGINT, before)
        ended.set()
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "hotline: interrupted\n")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    """A script's background jobs ignore SIGINT."""
    program = """
import os, signal
from hotline.cli.interruption import end_at_ctrl_c, raise_at_ctrl_c
signal.signal(signal.SIGINT, signal.SIG_IGN)
end_at_ctrl_c()
os.kill(os.getpid(), signal.SIGINT)
raise_at_ctrl_c()
os.kill(os.getpid(), signal.SIGINT)
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
