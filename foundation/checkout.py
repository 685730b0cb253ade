"""The checkout that this process runs from, and the folders of it that Python imports from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def source_folders(root: Path = ROOT) -> tuple[Path, ...]:
    """Return the folders that a checkout puts on the import path: the testbed, its switch, and packages."""
    return root, root / "src", root / "softswitch" / "src", *sorted(root.glob("packages/*/src"))
