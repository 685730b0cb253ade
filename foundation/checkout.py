"""The checkout that this process runs from, and the folders of it that Python imports from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def source_folders(root: Path = ROOT) -> tuple[Path, ...]:
    """Return the folders of a checkout that are on Python's import path: the testbed, its switch, packages."""
    return root, root / "src", root / "softswitch" / "src", *sorted(root.glob("packages/*/src"))
