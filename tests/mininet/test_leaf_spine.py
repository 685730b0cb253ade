"""The example of many switches: a leaf-spine network on Mininet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.checkout import ROOT

pytestmark = pytest.mark.mininet
SCRIPT = ROOT / "examples" / "leaf_spine" / "leaf_spine.py"


def test_all_hosts_of_the_leaf_spine_example_reach_each_other() -> None:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, SCRIPT, "--leaves", "3", "--spines", "2"],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ready, memory, pings = done.stdout.splitlines()
    assert ready.startswith("5 switches were ready after")
    assert float(re.findall(r"[\d.]+", memory)[0]) > 0
    assert pings == "0 of 6 pings were lost"
