"""Errors of protobuf's text format, which quote a whole line of the text, and whole names."""

from __future__ import annotations

_MAX_LINE, _MAX_MESSAGE = 40, 160
"""Letters of the quoted line, and of what is wrong there, that are shown."""


def describe_parse_error(error: Exception) -> str:
    """Return the text of an error of `text_format.Parse`, with the beginnings of what it quotes."""
    text = str(error)
    place, opening, rest = text.partition(" : '")
    line, closing, message = rest.rpartition("': ")
    if not opening or not closing:
        return _shortened(text, _MAX_MESSAGE)
    return f"{place}{opening}{_shortened(line, _MAX_LINE)}{closing}{_shortened(message, _MAX_MESSAGE)}"


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
