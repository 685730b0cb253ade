"""Formatting of text for users: messages of `log_msg` (BMv2: core/primitives.cpp), and plurals."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLACEHOLDER = re.compile(r"(?<!\\)\{.*?(?<!\\)\}", re.DOTALL)


def format_message(message: str, values: Iterable[int]) -> str:
    r"""Replace each `{}` of a text by the next value in decimal; `\{` and `\}` are braces."""
    remaining_values = iter(values)
    text = PLACEHOLDER.sub(lambda placeholder: str(next(remaining_values, placeholder[0])), message)
    return text.replace("\\{", "{").replace("\\}", "}")


def pluralize(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
