"""Tests are collected where Mininet cannot be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WITHOUT_MININET = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "mininet":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Forbidden())
"""


def test_tests_are_collected_without_mininet(tmp_path: Path) -> None:
    (tmp_path / "without_mininet.py").write_text(WITHOUT_MININET)
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "without_mininet"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/unit/topologies", "tests/mininet"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
