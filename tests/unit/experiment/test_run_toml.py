"""A run without CONFIG takes what run.toml of the checkout changes, and says so."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import tomli

from experiment import run_config as configuration
from experiment.errors import ConfigError
from experiment.run_config import Config, Faults, load_config
from foundation.designs.registry import NAMES

SHIPPED = configuration.RUN_TOML.read_text()
SETTING = re.compile(r"^(?P<hash># )?(?P<name>\w+) = (?P<value>.*)$|^\[(?P<table>\w+)\]$", re.MULTILINE)
OTHERS = {
    "design": '"none"', "target": '"bmv2"', "codec": '"scapy"', "datapath": '"sockets"',
    "topology": '"leaf-spine"', "leaves": "3", "hot_sets": '"leaves"', "routing": '"spray"',
    "spine_share": "0.25",
    "tables": '"criteo"',
    "runs": '"elsewhere"', "rule": '"window"', "arms": '["baseline", "offload"]', "discard_ms": "120",
    "underlay": '"direct"', "after_death": '"wait"', "kill": '["1@1"]',
    "join": '["1@2"]',
}  # fmt: skip
"""Other values of settings that are not numbers, or that have neighbours."""


def other_value(name: str, value: str) -> str:
    parsed = tomli.loads(f"value = {value}")["value"]
    if name in OTHERS:
        return OTHERS[name]
    return str(not parsed).lower() if isinstance(parsed, bool) else str(parsed + 1 if parsed else 0.25)


def edits() -> dict[str, tuple[str, str]]:
    """Return by dotted name each setting of run.toml: the edited file, and one with this setting alone."""
    found, table = {}, ""
    for match in SETTING.finditer(SHIPPED):
        if match["table"]:
            table = match["table"]
            continue
        name, value = match["name"], match["value"]
        line = f"{name} = {value if match['hash'] else other_value(name, value)}"
        if name in ("ns_per_rpc", "ns_per_lane", "compute_ns"):
            line = f"{name} = 7"
        edited = SHIPPED[: match.start()] + line + SHIPPED[match.end() :]
        found[f"{table}.{name}" if table else name] = (edited, f"[{table}]\n{line}" if table else line)
    return found


EDITS = edits()


@pytest.fixture
def run_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the run.toml of a checkout of the test's own."""
    file = tmp_path / "run.toml"
    file.write_text(SHIPPED)
    monkeypatch.setattr(configuration, "RUN_TOML", file)
    return file


def outcome(*arguments: str) -> Config | str:
    """Return the configuration, or the error without the name of the file."""
    try:
        return load_config(arguments)
    except ConfigError as error:
        return str(error).rpartition(".toml: ")[2]


def test_every_setting_is_edited() -> None:
    def names(model: Any, prefix: str = "") -> set[str]:
        return {
            each
            for name, value in model.items()
            for each in (names(value, f"{name}.") if isinstance(value, dict) else {prefix + name})
        }

    assert set(EDITS) == names(Config().model_dump())


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_setting_is_read_like_a_file_with_only_the_setting(
    run_toml: Path, tmp_path: Path, name: str
) -> None:
    edited, line = EDITS[name]
    alone = tmp_path / "alone.toml"
    alone.write_text(line)
    for variables in ([], ["CODEC=scapy"], ["PRECISE=1"], ["SCRIPT=train.py"]):
        run_toml.write_text(edited)
        assert outcome(*variables) == outcome(*variables, f"CONFIG={alone}"), variables
    is_written = line.rpartition("\n")[2] not in SHIPPED
    assert (outcome() != Config()) or not is_written


@pytest.mark.parametrize("design", NAMES)
@pytest.mark.parametrize("variables", [[], ["CODEC=scapy"], ["PRECISE=1"], ["TARGET=bmv2"]], ids=str)
def test_the_shipped_run_toml_changes_nothing_and_logs_nothing(
    run_toml: Path, caplog: pytest.LogCaptureFixture, design: str, variables: list[str]
) -> None:
    caplog.set_level(logging.INFO)
    arguments = [f"DESIGN={design}", *variables]
    read = outcome(*arguments)
    run_toml.unlink()
    assert read == outcome(*arguments)
    # Agents of Scapy refuse designs with packets or servers of their own.
    assert isinstance(read, Config) == (variables != ["CODEC=scapy"] or design in ("hotset", "none"))
    assert caplog.messages == []


def test_changes_of_run_toml_are_logged(run_toml: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run_toml.write_text(SHIPPED.replace("workers = 4", "workers = 8").replace("loss = 0.0", "loss = 0.25"))
    assert load_config(["WORKERS=3"]) == Config(workers=3, faults=Faults(loss=0.25))
    assert caplog.messages == [f"{run_toml}: workers = 8, faults.loss = 0.25"]


def test_a_file_given_by_config_replaces_run_toml(run_toml: Path, tmp_path: Path) -> None:
    run_toml.write_text("workers = 8")
    (tmp_path / "mine.toml").write_text("servers = 3")
    assert load_config([f"CONFIG={tmp_path}/mine.toml"]) == Config(servers=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [("workers = 'four'", "workers = 'four': "), ("wokers = 3", "wokers = 3: "), ("workers 3", "not TOML: ")],
)
def test_errors_in_run_toml_name_the_file(run_toml: Path, text: str, message: str) -> None:
    run_toml.write_text(text)
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{run_toml}: {message}')}"):
        load_config([])
