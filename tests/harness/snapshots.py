"""Comparison of whole texts. `UPDATE_SNAPSHOTS=1` writes the files of snapshots: read their diff."""

from __future__ import annotations

import os
import re
from pathlib import Path


def assert_snapshot(file: Path, text: str) -> None:
    """Compare a text with a file, except for blanks at line ends."""
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(shown)
    assert shown.splitlines() == file.read_text().splitlines()


def exactly(text: str) -> str:
    """Return a pattern of this whole text, for `pytest.raises(match=...)`."""
    return rf"\A{re.escape(text)}\Z"
