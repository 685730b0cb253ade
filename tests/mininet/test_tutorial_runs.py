"""The last step of docs/tutorial.md: runs of the reader's design and of the hot set, and their comparison."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import tomli

from foundation.designs import recorded, registry
from foundation.designs.registry import DesignError, design
from tests.harness.cli import invoke, json_of
from tests.harness.warm_processes import warm_process
from tests.mininet.run_topo import PATIENCE_S, SMALL, record_of, rpcs_to_servers, summary_of
from tests.unit.hotline.test_tutorial import RUNNING, Command, prepare_home
from tests.unit.repository.test_rooms import ROOT

pytestmark = pytest.mark.mininet
SHORT = {
    **{name: SMALL[name] for name in ("workers", "rounds", "discard_ms", "trace_steps")},
    "block_ms": 200, "block_steps": 10, "budget_s": 2.0, "calibration_s": 0.1, "empty_rpcs": 20,
    "profile_lanes": 30_000,
}  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Type what the page has, in runs that are shorter; return the output of each command."""
    home = tmp_path_factory.mktemp("home")
    prepare_home(home)
    for name in ("mine", "once", "offload"):
        file = home / "designs" / f"{name}.toml"
        values: dict[str, Any] = tomli.loads(file.read_text())
        runs = home / values["runs"]  # an absolute folder stays
        tables = "".join(
            f"[{key}]\n" + "".join(f"{setting} = {json.dumps(number)}\n" for setting, number in table.items())
            for key, table in values.items()
            if isinstance(table, dict)
        )
        scalars = {key: value for key, value in values.items() if not isinstance(value, dict)}
        settings = {**scalars, **SHORT, "runs": str(runs)}
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in settings.items()]
        file.write_text("".join(lines) + tables)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recorded, "_remembered", {})
        patched.setattr(registry, "_external_designs", {})
        return {command.line: _typed(command, home) for command in RUNNING} | {"home": str(home)}


def _typed(command: Command, home: Path) -> str:
    line = command.line.removeprefix("sudo ").replace("$HOME", str(home))
    line = line.replace(" runs/", f" {home}/runs/")
    if line.startswith("./hotline compare "):
        # Run in this process, as imports take a second.
        compared = invoke(*line.split()[1:])
        assert compared.exit_code == 0, compared.output
        return compared.stdout
    if not command.shown.startswith("hotline: "):
        return _run_warm(line)
    # The refused command shows that a process that has imported nothing finds the design.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        line.split(), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, env=environment
    )
    assert ended.returncode == 1, ended.stderr
    return ended.stderr


def _run_warm(line: str) -> str:
    found = re.fullmatch(r"(?:env PYTHONPATH=(\S+) )?\./hotline (.+)", line)
    assert found, line
    variables = {"PYTHONPATH": found[1]} if found[1] else {}
    with warm_process("hotline.cli", *found[2].split(), stdout=PIPE, stderr=PIPE, variables=variables) as run:
        output, errors = run.communicate(PATIENCE_S)
    assert run.returncode == 0, errors
    return output


@pytest.mark.parametrize("command", RUNNING, ids=lambda command: command.line.partition("./hotline ")[2])
def test_each_command_of_the_tutorials_runs_prints_the_shown_output(
    command: Command, outputs: dict[str, str]
) -> None:
    printed = outputs[command.line]
    # A line of dots may stand for no line, too.
    shown = re.sub(r"^\.\.\.\n", "...", command.shown, flags=re.MULTILINE)
    is_shown = doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)
    assert is_shown, f"the page shows\n{command.shown}\nand {command.line} prints\n{printed}"


@pytest.mark.parametrize(
    "command", [("report",), ("figures", "-o", "{home}/figures"), ("logs", "check")], ids=" ".join
)
def test_a_run_of_the_tutorials_design_can_be_read_without_the_design_on_the_path(
    command: tuple[str, ...], outputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = outputs["home"]
    monkeypatch.setattr(recorded, "_remembered", {})
    monkeypatch.setattr(registry, "_external_designs", {})
    with pytest.raises(DesignError):
        design("mine.once")
    ended = invoke(*(word.format(home=home) for word in command), f"{home}/runs/once/latest")
    assert ended.exit_code == 0, ended.output


def test_the_switch_of_the_design_served_all_requests(outputs: dict[str, str]) -> None:
    runs = Path(outputs["home"]) / "runs"
    once, offload = ((runs / name / "latest").resolve() for name in ("once", "offload"))
    updates = summary_of(once)["updates"]
    assert updates["sent"] == updates["applied"] > 10_000 and updates["mismatched_keys"] == 0
    assert set(rpcs_to_servers(once)) == {"once-off"}
    assert 0 < rpcs_to_servers(offload)["offload"] < rpcs_to_servers(offload)["baseline"]
    assert record_of(once)["recorded_design"]["name"] == "mine.once"
    _, other = json_of("compare", f"{offload}:offload", f"{once}:once")
    packets = other["changes"]["0.5"]["ps_packets_per_step"]
    assert other["name"] == f"{once.name}:once" and packets["reference"] > 0 and packets["ratio"] == -1
