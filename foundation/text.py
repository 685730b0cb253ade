"""Numbers with their nouns, and lists, as messages have them."""

from __future__ import annotations


def pluralize(number: int, one: str, many: str | None = None) -> str:
    """`1 round`, `2,000 rounds`; `many` where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def one_line(text: str) -> str:
    """A name or message of somebody else's: what cannot be printed, such as a line break, is escaped."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shortened(text: str) -> str:
    """A list, but no more of it than can be read."""
    return text if len(text) <= 200 else text[:200] + "..."


def capital(text: str) -> str:
    """With a capital first letter, as sentences begin."""
    return text[:1].upper() + text[1:]
