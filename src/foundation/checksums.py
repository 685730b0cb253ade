"""CRC-32 of files, which tells damage; it protects against no attacker."""

from __future__ import annotations

import zlib
from pathlib import Path

_BLOCK_BYTES = 1 << 20


def crc32_of(file: Path) -> int:
    """Return the CRC-32 of a file's content; raise `OSError`."""
    checksum = 0
    with file.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum
