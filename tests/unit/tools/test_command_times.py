"""Time and memory of commands that pages name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.checkout import ROOT
from switch_harness.wording import mentions
from tools.evidence.command_times import Usage, main, usage_of
from tools.evidence.result import EvidenceError

PEAK_BYTES = 150_000_000
BUSY = f"""{sys.executable} -c '
import time
memory = b"1" * {PEAK_BYTES}
while time.process_time() < 0.1: pass
print("said")
'"""


def test_usage_is_of_the_command_and_its_children(tmp_path: Path) -> None:
    """In a process of its own: a child's peak begins with the memory of the process that forked it."""
    printed = subprocess.run(
        [sys.executable, "-m", "tools.evidence.command_times", BUSY, "true"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    usages = {command: Usage(**usage) for command, usage in json.loads(printed.stdout).items()}
    assert list(usages) == [BUSY, "true"] and printed.stderr == "said\n"
    assert 0.1 <= usages[BUSY].cpu_s <= usages[BUSY].seconds + 0.1
    assert usages["true"].peak_bytes < PEAK_BYTES <= usages[BUSY].peak_bytes < 2 * PEAK_BYTES


def test_a_timed_command_gets_no_environment_variables_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("PYTHONPATH", "MAKEFLAGS", "ARGS", "HOME"):
        monkeypatch.setenv(name, "set")
    usage_of("echo $PYTHONPATH $MAKEFLAGS $ARGS $HOME", tmp_path)
    assert capfd.readouterr().err == "set\n"


def test_a_command_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=mentions("exit 3", "status 0", "found 3")):
        usage_of("exit 3", tmp_path)


def test_commands_run_in_a_clone_of_the_last_commit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "old").touch()
    main(["--clone", str(clone), "test ! -e .venv", "pwd >&2"], standalone_mode=False)
    printed = capfd.readouterr()
    assert printed.err.strip() == str(clone)
    assert list(json.loads(printed.out)) == ["test ! -e .venv", "pwd >&2"]
    heads = {head_of(clone), head_of(ROOT)}
    assert len(heads) == 1 and not (clone / "old").exists()


def head_of(checkout: Path) -> str:
    git = ["git", "-c", f"safe.directory={checkout}", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout
