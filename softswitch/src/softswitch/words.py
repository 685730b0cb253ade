"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 port`, `2 ports`; `many` where it is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
