"""What `python -m` and `make run-topo` do with their arguments; nothing is run or removed."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from experiment.run_config import Config
from experiment.variables import VARIABLE_NAMES
from hotline.cli.commands import hotline
from switch_harness.wording import says
from tests.harness.make import planned_commands
from topologies import cleanup, lifecycle, mininet_testbed, preflight, run_lock

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=AssertionError("it was about to begin"))
    monkeypatch.setattr(run_lock, "hold_run_lock", refuse)
    monkeypatch.setattr(mininet_testbed, "hold_run_lock", refuse)


def test_the_help_of_cleanup_removes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cleanup.main(["--help"])
    assert ended.value.code == 0
    assert says(capsys.readouterr().out, "remains", "Remove")


def test_help_of_run_explains_each_variable_in_one_line() -> None:
    lines = CliRunner().invoke(hotline, ["run", "--help"], terminal_width=80).stdout.splitlines()
    variables = lines[lines.index("Variables:") + 1 : lines.index("Options:") - 1]
    explained = dict(line.split(maxsplit=1) for line in variables)
    assert tuple(explained) == VARIABLE_NAMES
    assert all(text.endswith(".") for text in explained.values())
    assert max(map(len, lines)) <= 80


def test_bad_data_is_reported_before_the_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "check", lambda config: None)
    monkeypatch.setattr(lifecycle, "configure_logging", lambda console: None)
    Path("bad.svm").write_text("1 3:1\n7 4:1\n")
    assert lifecycle.main(["DATA=bad.svm"]) == 1
    assert says(capsys.readouterr().err.splitlines()[-1], "DATA=bad.svm", "line 2", 7)
    assert not Config().runs.exists()


def arguments(*given: str, **environment: str) -> list[str]:
    """What `make run-topo` would give to `hotline run`."""
    words = planned_commands("run-topo", *given, **environment)[-1]
    return words[words.index("run") + 1 :]


def test_make_passes_variables_on_unchanged() -> None:
    assert sorted(arguments("DATA=it's a.svm", "TOPK=5")) == ["DATA=it's a.svm", "TOPK=5"]


def test_make_passes_on_variables_without_a_value() -> None:
    """It is refused, and not taken for the default."""
    assert arguments("DATA=") == ["DATA="]


def test_the_shell_reports_that_no_switch_is_running() -> None:
    with socket.socket() as reserved:  # a port without a listener
        reserved.bind(("127.0.0.1", 0))
        switch = f"127.0.0.1:{reserved.getsockname()[1]}"
        done = subprocess.run(
            [ROOT / "tools" / "scripts" / "shell"],
            env=os.environ | {"SWITCH": switch},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"shell: no switch is running at {switch}; ") and done.stdout == ""


def test_make_takes_no_variables_from_the_environment() -> None:
    assert arguments("SEED=3", CONFIG="other.toml", DATA="x", TARGET="bmv2") == ["SEED=3"]
