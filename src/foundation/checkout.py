"""The checkout that this process runs from, and the folders of it that Python imports from."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def source_folders(root: Path = ROOT) -> tuple[Path, ...]:
    """Return the folders that a checkout puts on the import path: the testbed and its packages."""
    return root, root / "src", *sorted(root.glob("packages/*/src"))


def environment_with_checkout() -> dict[str, str]:
    """Return this process's environment, with the checkout first in PYTHONPATH."""
    folders = map(str, source_folders())
    python_path = os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": python_path}
