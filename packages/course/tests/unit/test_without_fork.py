"""Exercises are checked on systems without fork, file locks and /proc, in the checker's own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from foundation.checkout import ROOT
from packages.course.tests.unit.submissions import submit

SCRIPT = """
import json
import sys
from switch_harness.other_systems import imitate_windows
imitate_windows()

from pathlib import Path
from hotline_course.checker import check_batch
from hotline_course.errors import CannotCheck
from hotline_course.exercise import COURSE
from hotline_course.report import as_row

folders = [Path(each) for each in sys.argv[1:]]
results = [check_batch([each], COURSE)[0] for each in folders]
try:
    check_batch(folders, COURSE)
    refusal = ""
except CannotCheck as error:
    refusal = str(error)
print(json.dumps([[[each.earned, as_row(each)[3], each.not_isolated] for each in results], refusal]))
"""
PYTEST = """
import sys
from switch_harness.other_systems import imitate_macos
imitate_macos()
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--import-mode=importlib", *sys.argv[1:]]))
"""


def run(script: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    folders = ("src", "packages/course/src", "packages/softswitch/src", "packages/softswitch/tests")
    path = os.pathsep.join(str(ROOT / each) for each in folders)
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip


def test_one_submission_is_checked_without_fork_and_a_batch_is_refused(tmp_path: Path) -> None:
    solved = [submit(tmp_path / name, name) for name in ("02-count", "06-two-switches")]
    wrong = submit(tmp_path / "07-rule", "07-rule", rule_py="def start(:")
    done = run(SCRIPT, *solved, wrong)
    assert done.returncode == 0, done.stderr
    results, refusal = json.loads(done.stdout)
    assert [each[0] for each in results] == [8, 8, 0]
    assert "SyntaxError" in results[2][1]
    assert {each[2] for each in results} == {"this system has no os.fork"}
    assert "expected one submission, got 3" in refusal


def test_pytest_runs_an_exercises_tests_without_fork(tmp_path: Path) -> None:
    solved = submit(tmp_path / "solved", "01-forward")
    skeleton = submit(tmp_path / "skeleton", "01-forward", is_solved=False)
    done = run(PYTEST, solved, skeleton)
    assert "4 failed, 4 passed" in done.stdout, done.stdout + done.stderr
