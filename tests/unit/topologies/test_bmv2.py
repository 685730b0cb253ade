"""Runs use the BMv2 that is named or on PATH."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from experiment.errors import AgentFailed, PreflightError
from experiment.run_config import Config
from softswitch.processes import NO_BMV2
from switch_harness.wording import mentions
from topologies import preflight
from topologies.process_statistics import describe_versions
from topologies.switches import switch_of
from topologies.testbed import ControlledSwitch, name_switch_rate

ROOT = Path(__file__).parents[3]


@pytest.fixture
def only_the_target_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("_check_privileges", "_check_programs", "_check_mininet"):
        monkeypatch.setattr(preflight, check, lambda *_: None)


@pytest.mark.usefixtures("only_the_target_matters")
def test_a_run_checks_the_bmv2_that_is_named(
    not_installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Config(target="bmv2", runs=tmp_path)
    for name, problem in (("", NO_BMV2), ("/nowhere", "HOTLINE_BMV2=/nowhere: /nowhere is not a program")):
        monkeypatch.setenv("HOTLINE_BMV2", name)
        with pytest.raises(PreflightError, match=f"^TARGET=bmv2: {re.escape(problem)}; ") as raised:
            preflight.check(config)
        message = str(raised.value)
        assert "Vagrantfile" in message and "softswitch" in message and "\n" not in message
    assert "https://github.com/p4lang/behavioral-model" in NO_BMV2
    preflight.check(Config(runs=tmp_path))


@pytest.mark.usefixtures("only_the_target_matters")
def test_a_run_takes_the_bmv2_that_is_named(fake_bmv2: Path, tmp_path: Path) -> None:
    preflight.check(Config(target="bmv2", runs=tmp_path))
    switch = switch_of(Config(target="bmv2"), tmp_path, cpu=None)
    assert switch.command()[:2] == [str(fake_bmv2), "--no-p4"]


def test_an_agent_that_does_not_answer_is_reported_with_the_rate_of_the_switch() -> None:
    frames, clock_s = iter([100, 700]), iter([1, 3])
    switch = cast(ControlledSwitch, SimpleNamespace(frames_sent=lambda: next(frames)))
    with (
        pytest.raises(AgentFailed, match=mentions("worker-1", "300 frames/s")),
        name_switch_rate(switch, lambda: next(clock_s) * 10**9),
    ):
        raise AgentFailed("worker-1 did not answer")
    unknown = cast(ControlledSwitch, SimpleNamespace(frames_sent=lambda: None))
    with pytest.raises(AgentFailed, match=r"^worker-1$"), name_switch_rate(unknown, lambda: 0):
        raise AgentFailed("worker-1")


def test_the_frames_sent_by_a_switch_are_the_sum_over_its_interfaces(tmp_path: Path) -> None:
    switch = switch_of(Config(), tmp_path, cpu=None)
    switch.interfaces = {1: "lo"}
    before = switch.frames_sent()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        for _ in range(3):
            sender.sendto(b"!", sender.getsockname())
    after = switch.frames_sent()
    assert before is not None and after is not None and after >= before + 3
    switch.interfaces = {1: "lo", 2: "nowhere"}
    assert switch.frames_sent() is None


def test_a_run_reports_the_version_of_the_bmv2_that_is_named(fake_bmv2: Path) -> None:
    pytest.importorskip("topologies.mininet_api", reason="needs Mininet")
    assert describe_versions("bmv2")["bmv2"] == "fake: --version"


def test_sudo_passes_the_name_of_bmv2_on_to_its_command(tmp_path: Path) -> None:
    for name, script in (("id", "echo 1000"), ("sudo", 'shift; exec /usr/bin/env -i "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    command = [str(ROOT / "tools" / "scripts" / "as-root"), "/bin/sh", "-c", 'echo "$HOTLINE_BMV2"']
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOTLINE_BMV2": "/a place/bmv2"}
    message = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert message == "/a place/bmv2\n"
