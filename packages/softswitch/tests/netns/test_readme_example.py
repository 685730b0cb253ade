"""README's first example, typed in a shell of root: two hosts ping each other through the switch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.warm import is_cold
from switch_harness.namespaces import OWN_NAMESPACES
from switch_harness.waiting import PATIENCE_S

pytestmark = pytest.mark.netns

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def block_with(line: str) -> str:
    """Return README's block of commands that has this line."""
    blocks = re.findall(r"(?:^    .*\n)+", README, re.MULTILINE)
    (block,) = (block for block in blocks if line in block)
    return str(block)


def test_the_first_example_ends_with_three_answers_and_removes_its_hosts() -> None:
    if is_cold():
        subprocess.run([sys.executable, "-m", "softswitch.warm"], cwd=PROJECT, check=True)
    script = block_with("for n in 1 2") + block_with("kill %1") + "ip netns list\n"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [OWN_NAMESPACES, "bash", "-e", "-c", script],
        cwd=PROJECT.parents[1],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    promise = re.search(r"ping ends with `(.*)`", README)
    assert promise is not None and promise[1] in done.stdout
    assert not re.search(r"^h[12]\b", done.stdout, re.MULTILINE)
