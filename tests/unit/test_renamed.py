"""Old names of commands and options: one error that has the old name and the new one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from foundation.renamed import COMMANDS, OPTIONS, SETTINGS
from hotline.cli.commands import hotline
from tests.harness.cli import invoke

CHECKOUT = Path(__file__).parents[2]


def refusal(*command: str) -> str:
    """Return the last line of a usage error."""
    result = invoke(*command)
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize(("old", "new"), COMMANDS.items())
def test_an_old_verb_is_refused(old: str, new: str) -> None:
    assert new in hotline.commands and old not in hotline.commands
    assert refusal(old, "--json") == f"Error: expected command '{new}', got its old name '{old}'"


@pytest.mark.parametrize(("command", "old", "new"), [(*old, new) for old, new in OPTIONS.items()])
def test_an_old_option_is_refused(command: str, old: str, new: str) -> None:
    names = {name for parameter in hotline.commands[command].params for name in parameter.opts}
    assert new in names and old not in names
    for given in ([old, "1"], [f"{old}=1"]):
        assert refusal(command, *given) == f"Error: expected option '{new}', got its old name '{old}'"


def test_an_unknown_option_has_the_message_of_click() -> None:
    assert refusal("follow", "--nothing").startswith("Error: No such option '--nothing'.")


def test_an_old_target_of_make_is_refused() -> None:
    made = subprocess.run(["make", "-s", "zoo"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert made.returncode == 2
    assert made.stderr.startswith("make: expected target 'allreduce', got its old name 'zoo'\n")


@pytest.mark.parametrize(("path", "new"), SETTINGS.items())
def test_an_old_setting_is_refused(tmp_path: Path, path: str, new: str) -> None:
    *tables, old = path.split(".")
    file = tmp_path / "simulation.toml"
    head = {0: "", 1: "[{}]\n", 2: "[[{}]]\nhost = 'w1'\nfrom_ms = 0\n"}[len(tables)]
    file.write_text(f"{head.format('.'.join(tables))}{old} = 1\n")
    result = invoke("simulate", file)
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.startswith(f"Error: CONFIG={file}: {tables[0] if tables else old}")
    assert line.endswith(f": expected setting '{new}', got its old name '{old}'")
