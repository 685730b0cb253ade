"""Read a file with an error for users."""

from __future__ import annotations

from pathlib import Path

from softswitch.errors import SwitchError


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SwitchError(f"{path}: {error.strerror}") from None
