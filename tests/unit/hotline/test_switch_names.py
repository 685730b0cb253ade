"""Commands name the switch of a network that a run on this machine has."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from controller.errors import DeviceError
from controller.program import ProgramStatus
from experiment.members import FILE, MemberLog
from experiment.run_config import Config
from hotline.cli.members import MemberWatch
from tests.harness.cli import invoke

PROGRAM = ProgramStatus(name="fabric", version="1", tables=(), counters=(), registers=(), unread={})


@pytest.fixture
def addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the spine and two leaves of a run that goes on."""
    config = Config(topology="leaf-spine", leaves=2)
    log = MemberLog(tmp_path / "logs" / FILE)
    log.begin(config.switch_names)
    log.add("worker-1", os.getpid(), "no-such-interface")
    monkeypatch.setattr("topologies.lock_record.find_running_folder", lambda: tmp_path)
    monkeypatch.setattr("hotline.cli.status._read", lambda switch: (None, PROGRAM))
    return [config.p4runtime_address(switch) for switch in range(3)]


def test_status_names_the_spine_and_the_leaves_of_a_run(addresses: list[str]) -> None:
    for address, name in zip(addresses, ("spine", "leaf 1", "leaf 2"), strict=True):
        printed = invoke("status", "--switch", address).stdout
        assert printed.startswith(f"switch {address} ({name}): program fabric")
        found = json.loads(invoke("status", "--switch", address, "--json").stdout)
        assert (found["switch"], found["switch_name"], found["name"]) == (address, name, "fabric")
        assert [each["name"] for each in found["members"]] == ["worker-1"]


@pytest.mark.parametrize(
    "command",
    [
        ("registers", "--job", "3"), ("unload", "--job", "3"), ("offload", "off", "--job", "3"),
        ("proxy", "on", "--job", "3"), ("follow", "--job", "3", "--top-k", "9"), ("quota",),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_commands_with_a_switch_option_print_the_name_of_the_switch(
    addresses: list[str], command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **_options: object) -> None:
        raise DeviceError("refused")

    monkeypatch.setattr("hotline.cli.common.call_switch", refuse)
    for address, name in zip(addresses, ("spine", "leaf 1", "leaf 2"), strict=True):
        ran = invoke(*command, "--switch", address)
        assert ran.exit_code == 1 and f"switch {address} ({name})" in ran.stderr
        assert "refused" in ran.stderr and ran.stdout == ""
    assert "switch 127.0.0.1:1\n" not in invoke(*command, "--switch", "127.0.0.1:1").stderr


def test_a_switch_of_no_run_has_an_address_only(addresses: list[str]) -> None:
    watch = MemberWatch(None, "127.0.0.1:1")
    assert (watch.switch, watch.switch_name, watch.read()) == ("127.0.0.1:1", "", [])
    printed = invoke("status", "--switch", "127.0.0.1:1").stdout
    assert printed.startswith("switch 127.0.0.1:1: program fabric")
