"""Text of submissions, which may have any characters, for terminals and XML."""

from __future__ import annotations

_MAX_CHARACTERS = 6000


def printable(text: str) -> str:
    """Return text without control characters but line feeds, and of limited length."""
    shown = "".join(
        each if each == "\n" or each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text
    )
    return shown if len(shown) <= _MAX_CHARACTERS else shown[:_MAX_CHARACTERS] + " …"
