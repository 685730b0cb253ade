"""The import path of a copy of the tree, without an import of the project's own code."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def import_paths(tree: Path) -> list[str]:
    return [str(folder) for folder in (tree, tree / "src", *sorted(tree.glob("packages/*/src")))]
