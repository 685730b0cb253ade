"""Texts that are compared with a file as a whole. `UPDATE_SNAPSHOTS=1` writes the files: read their diff."""

from __future__ import annotations

import os
from pathlib import Path


def assert_snapshot(file: Path, text: str) -> None:
    """Compare a text with a file, except for blanks at line ends."""
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(shown)
    assert shown.splitlines() == file.read_text().splitlines()
