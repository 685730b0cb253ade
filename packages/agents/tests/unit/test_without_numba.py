"""Without numba, the functions of the agents run as plain Python, and answer the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from foundation.checkout import ROOT, environment_with_checkout
from packages.agents.tests.harness import plain_probe
from tests.harness.ground_floor import make_ground_floor


def test_agents_without_numba_answer_as_compiled_agents(tmp_path: Path) -> None:
    python = make_ground_floor(tmp_path / "environment")
    done = subprocess.run(
        [python, "-m", plain_probe.__name__], capture_output=True, text=True, cwd=ROOT,
        env=environment_with_checkout(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == plain_probe.state_machines()
    assert found["pulled"] == [key * key for key in range(len(found["pulled"]))]
