"""Text of submissions, which may have any characters, for terminals and XML."""

from __future__ import annotations

_MAX_CHARACTERS = 6000


def printable(text: str) -> str:
    """Return text without control characters but line feeds, and of limited length."""
    kept = "".join(
        each if each == "\n" or each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text
    )
    return kept if len(kept) <= _MAX_CHARACTERS else kept[:_MAX_CHARACTERS] + " …"
