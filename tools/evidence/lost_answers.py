"""`python -m tools.evidence.lost_answers FOLDER SETTING...`: run the changed program of docs/start.md.

The change is applied to a copy of the checkout's last commit in FOLDER, compiled by `make p4`, and run with
the settings; the run is written where FOLDER/run.toml says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from foundation.checkout import ROOT, source_folders
from tools.evidence.command_times import clone_checkout
from tools.evidence.result import EvidenceError

PAGE = ROOT / "docs" / "start.md"


def patch_of(page: str) -> str:
    """Return the change of a page, its only block of `diff`."""
    blocks: list[str] = re.findall(r"^```diff\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        raise EvidenceError(f"{PAGE}: expected one block of diff, found {len(blocks)}")
    return blocks[0]


def copy_with_change(copy: Path) -> None:
    """Make a copy of the last commit whose program is changed and compiled, with this checkout's `.venv`."""
    clone_checkout(copy)
    git = ["git", "-c", f"safe.directory={copy}", "-C", str(copy)]
    subprocess.run([*git, "apply", "-"], input=patch_of(PAGE.read_text()), text=True, check=True)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    python_path = os.pathsep.join(map(str, source_folders(copy)))
    environment = {**os.environ, "PYTHONPATH": python_path}
    subprocess.run([sys.executable, "tools/scripts/p4.py"], cwd=copy, env=environment, check=True)


def main(folder: Path, settings: list[str]) -> int:
    copy = folder / "checkout"
    copy_with_change(copy)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["./hotline", "run", *settings, f"CONFIG={folder / 'run.toml'}"]
    return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
