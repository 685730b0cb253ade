"""Finding BMv2, switches as processes, and the ports that they get."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from softswitch import processes
from softswitch.conformance.runner import Outcome, run
from softswitch.conformance.targets import TARGETS
from softswitch.errors import Bmv2NotFound, SwitchEnded
from softswitch.processes import NO_BMV2
from switch_harness import PROGRAMS
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says

PROJECT = Path(__file__).parents[2]


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


def test_bmv2_that_is_nowhere(not_installed: None) -> None:
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
    test = "tests/bmv2/test_match_kinds.py::test_bmv2_agrees"
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


def test_a_switch_ends_with_the_process_that_started_it() -> None:
    script = (
        "import os, signal\nfrom softswitch import processes\n"
        "with processes.softswitch() as switch:\n"
        "    print(switch.process.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    program = Path(f"/proc/{int(done.stdout)}/exe")  # which a zombie does not have
    wait_for(lambda: not program.exists())
