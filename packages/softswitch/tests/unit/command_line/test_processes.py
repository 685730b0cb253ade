"""Finding BMv2, switches as processes, and the ports that they get."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from softswitch import processes
from softswitch.conformance.runner import Outcome, run
from softswitch.conformance.targets import TARGETS
from softswitch.errors import Bmv2NotFound, SwitchEnded
from softswitch.processes import NO_BMV2, SwitchProcess
from switch_harness import PROGRAMS
from switch_harness.slowed import slowed
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says

PROJECT = Path(__file__).parents[3]


# -- finding BMv2


def test_bmv2_is_named_by_program_or_folder_or_on_path(
    not_installed: None, fake_bmv2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert processes.find_bmv2() == str(fake_bmv2)
    monkeypatch.setenv("HOTLINE_BMV2", str(fake_bmv2.parent))
    assert processes.find_bmv2() == str(fake_bmv2)
    monkeypatch.chdir(fake_bmv2.parent)
    monkeypatch.setenv("HOTLINE_BMV2", ".")  # a switch may be started in another folder
    assert processes.find_bmv2() == str(fake_bmv2)
    monkeypatch.setenv("HOTLINE_BMV2", "")
    monkeypatch.setenv("PATH", str(fake_bmv2.parent))
    assert processes.find_bmv2() == str(fake_bmv2)


def test_a_missing_bmv2_is_one_error(not_installed: None) -> None:
    assert processes.installed_bmv2() is None
    with pytest.raises(Bmv2NotFound, match=f"^{NO_BMV2}$"):
        processes.find_bmv2()


@pytest.mark.parametrize(
    ("named", "path"), [("none", "none"), ("file", "file"), ("folder", "folder/simple_switch_grpc")]
)
def test_an_unknown_program_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str, path: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("HOTLINE_BMV2", str(tmp_path / named))
    message = f"^HOTLINE_BMV2={tmp_path / named}: {tmp_path / path} is not a program$"
    with pytest.raises(Bmv2NotFound, match=message):
        processes.installed_bmv2()


# -- its users, each where PATH has none


def test_conformance_runs_the_bmv2_that_is_named(fake_bmv2: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "some.stf"
    vectors.write_text("packet 1 00\n")
    verdict = run(TARGETS["bmv2"], PROGRAMS / "control.json", vectors)
    assert verdict.outcome is Outcome.FAIL
    assert says(verdict.reason, 3, "fake", "--no-p4", "--device-id", 1, "--", "--grpc")


def pytest_of_bmv2() -> tuple[int, str]:
    """Run a test that needs BMv2 in a separate pytest."""
    test = "tests/bmv2/test_match_kinds.py::test_bmv2_matches_entries_of_each_kind_as_softswitch_does"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=5 * PATIENCE_S)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.soak
def test_tests_run_on_the_bmv2_that_is_named(fake_bmv2: Path) -> None:
    status, line = pytest_of_bmv2()
    assert (status, "1 error" in line) == (1, True), line
    assert says(line, 3, "fake")


def test_tests_are_not_skipped_for_a_wrong_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLINE_BMV2", "/nowhere")
    status, line = pytest_of_bmv2()
    assert status == pytest.ExitCode.USAGE_ERROR
    assert says(line, "HOTLINE_BMV2=/nowhere", "/nowhere")


# -- TCP ports


def test_a_reserved_port_is_for_a_grpc_server_alone() -> None:
    with processes.reserved_port() as port, processes.reserved_port() as other:
        assert port != other
        with socket.socket() as client, pytest.raises(OSError, match="in use"):
            client.bind(("127.0.0.1", port))
        server = grpc.server(ThreadPoolExecutor(1))
        assert server.add_insecure_port(f"127.0.0.1:{port}") == port
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
        server.stop(None).wait()


# -- processes


def test_a_switch_that_ends_is_reported_with_its_last_words() -> None:
    message = r"^the switch ended with code 1: softswitch: error: expected PORT@INTERFACE.*, got 'nonsense'"
    options = ["--no-p4", "-i", "nonsense"]
    with pytest.raises(SwitchEnded, match=message), processes.softswitch(options=options):
        raise AssertionError("it runs")


WORKER = """
import socket, sys, time
end = time.process_time() + float(sys.argv[2])
while time.process_time() < end:
    pass
host, _, port = sys.argv[1].rpartition(":")
with socket.create_server((host, int(port)), reuse_port=True):
    time.sleep(float(sys.argv[3]))
"""
"""Computes, listens, and sleeps; its arguments are the address and times in s."""


@contextmanager
def working_switch(*times_s: float) -> Iterator[SwitchProcess]:
    with processes.reserved_port() as port, tempfile.TemporaryFile() as output:
        address = f"127.0.0.1:{port}"
        command = [sys.executable, "-c", WORKER, address, *map(str, times_s)]
        switch = processes.start_switch(command, output, address)
        try:
            yield switch
        finally:
            switch.process.kill()
            switch.process.wait()


def test_a_start_outlasts_work_that_takes_longer_than_its_limit_on_a_slow_machine() -> None:
    """The process has a tenth of the time: it takes some ten times as long as its limit."""
    with working_switch(0.1, 60) as switch, slowed(lambda: [switch.process.pid], factor=10):
        switch.wait_until_it_listens(0.1)


@pytest.mark.soak
def test_a_start_outlasts_a_machine_that_is_fifty_times_as_slow() -> None:
    with working_switch(0.5, 60) as switch, slowed(lambda: [switch.process.pid], factor=50):
        switch.wait_until_it_listens(0.5)


def test_a_switch_that_does_nothing_and_does_not_listen_is_described() -> None:
    with working_switch(0, 60) as switch:
        silent = switch._replace(address="127.0.0.1:1")
        with pytest.raises(SwitchEnded) as error:
            silent.wait_until_it_listens(0.1)
    assert says(error.value, "127.0.0.1:1", "lives", "CPU time", "load", "nothing")


def test_a_switch_that_works_gets_its_limit_of_working_time_before_a_kill() -> None:
    with working_switch(1e9, 0) as switch:
        started_s = time.monotonic()
        os.kill(switch.process.pid, signal.SIGSTOP)  # its end begins with SIGCONT
        switch.end(PATIENCE_S)
        assert switch.process.returncode == -signal.SIGTERM
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)\nwhile True: pass"
    with tempfile.TemporaryFile() as output:
        deaf = processes.start_switch([sys.executable, "-c", code], output, "")
        wait_for(lambda: deaf.log() == "\n")
        deaf.end(0.1)
        assert deaf.process.returncode == -signal.SIGKILL
    assert time.monotonic() - started_s < PATIENCE_S


def test_a_switch_ends_with_its_parent_process() -> None:
    script = (
        "import os, signal\nfrom softswitch import processes\n"
        "with processes.softswitch() as switch:\n"
        "    print(switch.process.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    program = Path(f"/proc/{int(done.stdout)}/exe")  # which a zombie does not have
    wait_for(lambda: not program.exists())
