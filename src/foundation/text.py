from __future__ import annotations

_MAX_SHORTENED_LENGTH = 200


def pluralize(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def signed(value: float, digits: int = 0) -> str:
    """Format a change with its sign; one that rounds to zero has a plus, also if it is negative."""
    return f"{round(value, digits) + 0.0:+,.{digits}f}"


def one_line(text: str) -> str:
    """Escape what cannot be printed, such as a line break, in a name or message from outside."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHORTENED_LENGTH else text[:_MAX_SHORTENED_LENGTH] + "..."


def show(value: object) -> str:
    """Return a short text of any value on one line, for an error message."""
    try:
        return shortened(one_line(repr(value)))
    except Exception:  # of the value's class
        return f"a {type(value).__name__}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
