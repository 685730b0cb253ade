"""The tables of packages/dense/README.md, for tests that recompute them."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "README.md"


def rows(*head: str) -> dict[str, list[str]]:
    """Return the rows of the table whose head begins with these cells, by their first cell."""
    lines = DOCS.read_text().splitlines()
    (begin,) = (number for number, line in enumerate(lines) if _cells(line)[: len(head)] == list(head))
    found = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = _cells(line)
        found[name.strip("`")] = cells
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
