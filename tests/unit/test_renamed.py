"""Old names of settings: one error that has the old name and the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from foundation.renamed import SETTINGS
from tests.harness.cli import invoke

CHECKOUT = Path(__file__).parents[2]


def refusal(*command: str) -> str:
    """Return the last line of a usage error."""
    result = invoke(*command)
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


def test_an_unknown_option_has_the_message_of_click() -> None:
    assert refusal("follow", "--nothing").startswith("Error: No such option '--nothing'.")


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
