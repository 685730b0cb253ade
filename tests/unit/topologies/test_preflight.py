"""Errors of the preflight on a machine that is not ready, simulated by patching."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from experiment.errors import PreflightError
from experiment.requirements import RunKind
from experiment.run_config import Config, PlacementConfig
from hotline_scripts import up
from softswitch.processes import reserved_port
from switch_harness.wording import mentions
from topologies import preflight
from topologies.mininet_testbed import MininetTestbed

ALL_CAPABILITIES = "Name:\tpython\nCapEff:\t000001ffffffffff\n"


@pytest.fixture(autouse=True)
def ready_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "_own_status", lambda: ALL_CAPABILITIES)
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    monkeypatch.delenv("HOTLINE_BMV2", raising=False)
    monkeypatch.setattr(preflight, "interface_exists", lambda name: False)
    monkeypatch.setattr(importlib, "import_module", lambda name: None)


def assert_refused(config: Config, message: str) -> None:
    with pytest.raises(PreflightError, match=message):
        preflight.check(config)


@pytest.fixture
def free_port() -> int:
    with reserved_port() as port:
        return port


def test_a_ready_machine_passes(free_port: int) -> None:
    preflight.check(Config())
    preflight.check_conflicts(Config(p4runtime_port=free_port))


def test_a_run_without_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert_refused(Config(), r"need root: put `sudo` before the command")


@pytest.mark.parametrize(("bit", "name"), [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (21, "CAP_SYS_ADMIN")])
def test_root_without_a_needed_capability_is_refused(
    monkeypatch: pytest.MonkeyPatch, bit: int, name: str
) -> None:
    status = f"CapEff:\t{(1 << 41) - 1 & ~(1 << bit):016x}\n"
    monkeypatch.setattr(preflight, "_own_status", lambda: status)
    assert_refused(Config(), f"root without {name}")


@pytest.mark.parametrize(
    ("program", "config", "message"),
    [
        ("mnexec", Config(), r"mnexec is not on PATH \(package mininet\)"),
        ("tcpdump", Config(pcap=True), r"tcpdump is not on PATH"),
        ("simple_switch_grpc", Config(target="bmv2"), r"^TARGET=bmv2: simple_switch_grpc, .* is neither"),
    ],
)
def test_a_missing_program_is_named(
    monkeypatch: pytest.MonkeyPatch, program: str, config: Config, message: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == program else f"/usr/bin/{name}")
    assert_refused(config, message)


@pytest.mark.parametrize(
    ("module", "message"), [("mininet", "does not find Mininet"), ("distutils", "Mininet needs distutils")]
)
def test_mininet_that_cannot_be_imported_is_explained(
    monkeypatch: pytest.MonkeyPatch, module: str, message: str
) -> None:
    missing = ModuleNotFoundError(f"No module named {module!r}", name=module)
    monkeypatch.setattr(importlib, "import_module", Mock(side_effect=missing))
    assert_refused(Config(), message)


@pytest.mark.parametrize("settings", [{"hot_sets": "leaves"}, {"spines": 2}])
def test_up_with_hot_sets_at_several_switches_is_refused(settings: dict[str, Any]) -> None:
    config = Config(topology="leaf-spine", **settings)
    preflight.check(config)
    with pytest.raises(PreflightError, match=mentions("hotline up", "several switches", "spines 1")):
        preflight.check(config, RunKind.UP)


def test_a_run_that_cannot_be_simulated_afterwards_is_announced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = {RunKind.SIMULATED: "design hotset: part switch_state (None) lacks values"}
    monkeypatch.setattr(preflight, "lacks_anything", lambda _name, kind: reasons.get(kind))
    note = f"no dedicated switch will be simulated after the run: {reasons[RunKind.SIMULATED]}"
    with caplog.at_level("INFO"):
        preflight.check(Config())
        assert caplog.messages == [note]
        preflight.check(Config(simulate_dedicated_switch=False))
        assert caplog.messages == [note]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(data=Path("/nowhere")), "DATA=/nowhere: cannot be read: No such file"),
        (
            Config(data=Path(".")),
            r"DATA=file: is empty; expected a log in CSV",
        ),
        (Config(data=Path("/dev/null")), "DATA=/dev/null: not a regular file"),
        (
            Config(script="none.py --epochs 3"),
            r"SCRIPT=none\.py --epochs 3: expected a Python script, got none.py: there is no such file",
        ),
        (Config(script="/dev"), "SCRIPT=/dev: expected a Python script, got /dev: it is not a file"),
        *(
            (Config(runs=Path(runs)), f"runs = {runs}: .*; set runs in CONFIG to a folder")
            for runs in ("/proc/x", "/proc", "file", "file/runs")
        ),
        (
            Config(placement=PlacementConfig(switch=4096)),
            r"placement\.switch = 4096: this process may use the CPUs ",
        ),
    ],
)
def test_missing_paths_and_cpus_are_named(tmp_path: Path, config: Config, message: str) -> None:
    (tmp_path / "file").touch()
    assert_refused(config, f"^{message}")


def test_interfaces_of_a_stale_mininet_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "interface_exists", lambda name: name == "s1-eth3")
    with pytest.raises(PreflightError, match=mentions("s1-eth3", "interface")):
        preflight.check_conflicts(Config())


def test_a_taken_p4runtime_port_is_refused() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PreflightError, match=mentions("TCP", "127.0.0.1", port)):
            preflight.check_conflicts(Config(p4runtime_port=port))


@pytest.mark.parametrize("design", ["switchml", "psdense", "ring"])
def test_scripts_cannot_use_lockstep_designs(design: str) -> None:
    with pytest.raises(PreflightError, match=mentions("hotset", "none", design)):
        up.check(Config(design=design), MininetTestbed())


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"script": "train.py"}, "SCRIPT"), ({"machines": "tcp://localhost:8786"}, "several machines")],
)
def test_a_run_that_ends_with_the_death_of_a_worker_takes_no_other_setting(
    settings: dict[str, str], words: str
) -> None:
    assert_refused(Config.model_validate({**settings, "after_death": "wait"}), mentions("after_death", words))
    preflight.check_after_death(Config.model_validate({**settings, "after_death": "wait"}), RunKind.UP)
