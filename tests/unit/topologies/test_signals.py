"""Signals that end a run, sent to small programs that play one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switch_harness.waiting import PATIENCE_S, wait_for
from tests.harness.children import child

PRELUDE = """
import asyncio, signal, sys, threading, time
from pathlib import Path
from topologies.signals import STOP, SignalActions

def stuck():
    # As in a library that does not return: no handler of Python's can end this.
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def ready():
    print("ready", flush=True)

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children ignore it
STOP.listen()
"""
BEHIND_THE_ECHO_S = 0.6


@contextmanager
def playing(program: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program, and wait until it is ready."""
    command, pipe = [sys.executable, "-c", PRELUDE + program], subprocess.PIPE
    with child(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def ending(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Return the exit code and the messages."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, errors.splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_process_without_set_up_ends_at_once(number: int) -> None:
    with playing("ready(); stuck()") as process:
        process.send_signal(number)
        assert ending(process) == (130, ["hotline: interrupted; nothing was run"])


def test_the_first_signal_cancels_and_an_immediate_second_signal_is_ignored() -> None:
    program = """
async def work():
    try:
        ready()
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.1)
        print("in order", file=sys.stderr)

async def main():
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work())
    with STOP.on_signal(SignalActions(lambda: "", cancel=lambda: loop.call_soon_threadsafe(task.cancel))):
        await task

try:
    asyncio.run(main())
except asyncio.CancelledError:
    STOP.exit(130)
"""
    with playing(program) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert ending(process) == (130, ["hotline: stopping …", "in order"])


def test_ctrl_c_of_a_command_line_that_ends_at_once_is_not_the_runs() -> None:
    program = """
sys.setswitchinterval(5)  # the thread that hears it comes late
ready()
try:
    with STOP.leave_ctrl_c_to_command_line():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
except KeyboardInterrupt:
    pass
time.sleep(0.3)
STOP.exit(0)
"""
    with playing("import os, signal\n" + program) as process:
        assert ending(process) == (0, [])


STUCK = """
clear = lambda: Path({file!r}).write_text("cleared")
with STOP.on_signal(SignalActions(lambda: "a folder is there", cancel=lambda: None, clean_up=clear)):
    ready()
    stuck()
"""


def test_a_run_that_does_not_stop_in_time_is_ended_by_force(tmp_path: Path) -> None:
    file = tmp_path / "cleared"
    with playing(STUCK.format(file=str(file))) as process:
        process.send_signal(signal.SIGINT)
        reported = ["hotline: stopping …", "hotline: interrupted; a folder is there"]
        assert ending(process) == (130, reported)
    assert file.read_text() == "cleared"


def test_a_second_signal_hurries_and_still_clears_up(tmp_path: Path) -> None:
    file = tmp_path / "cleared"
    # It would wait for long.
    program = "import topologies.signals; topologies.signals._CANCEL_TIMEOUT_S = 1000.0\n" + STUCK
    with playing(program.format(file=str(file))) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(BEHIND_THE_ECHO_S)  # what is sought is a signal that comes later
        process.send_signal(signal.SIGINT)
        assert ending(process)[0] == 130
    assert file.read_text() == "cleared"


def test_an_error_while_clearing_up_is_reported_and_does_not_hold_up_the_end() -> None:
    program = """
with STOP.on_signal(SignalActions(lambda: "a folder is there", clean_up=lambda: 1 / 0)):
    ready()
    stuck()
"""
    with playing(program) as process:
        process.send_signal(signal.SIGINT)
        reported = ["hotline: division by zero", "hotline: interrupted; a folder is there"]
        assert ending(process) == (130, reported)


def test_a_command_line_handles_ctrl_c_itself() -> None:
    program = """
try:
    with STOP.leave_ctrl_c_to_command_line():
        try:
            ready()
            time.sleep(1000)
        except KeyboardInterrupt:
            ready()
        time.sleep(1000)
except asyncio.CancelledError:
    STOP.exit(130)
"""
    with playing(program) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert ending(process)[0] == 130


@pytest.mark.parametrize("module", [("hotline.cli", "run"), ("topologies.cleanup",)])
def test_ctrl_c_is_heard_while_modules_are_being_imported(module: tuple[str, ...]) -> None:
    """Imports take seconds; a handler of SIGTERM shows that signals are handled."""
    process = subprocess.Popen(
        [sys.executable, "-m", *module, "no setting"], stderr=subprocess.PIPE, text=True
    )

    def hears() -> bool:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1]
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1) or process.poll() is not None

    wait_for(hears)
    os.kill(process.pid, signal.SIGINT)
    assert ending(process) == (130, ["hotline: interrupted; nothing was run"])
