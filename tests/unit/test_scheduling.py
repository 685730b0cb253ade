"""Tests on a network run one after the other, whatever runs beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import os, pathlib, pytest
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    (pathlib.Path({folder!r}) / f"{name}-{{os.getpid()}}").touch()
"""


def test_tests_on_a_network_all_go_to_one_worker(tmp_path: Path) -> None:
    for name in ("mininet", "unit"):
        folder = tmp_path / "tests" / name
        folder.mkdir(parents=True)
        (folder / f"test_{name}.py").write_text(TESTS.format(folder=str(tmp_path), name=name))
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler")
    (tmp_path / "pytest.ini").write_text("[pytest]")
    command = [sys.executable, "-m", "pytest", "-n", "2", "--import-mode=importlib", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert len(list(tmp_path.glob("mininet-*"))) == 1
    assert list(tmp_path.glob("unit-*"))
