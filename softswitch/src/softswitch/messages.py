"""The text of `log_msg`. BMv2: core/primitives.cpp."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLACEHOLDER = re.compile(r"(?<!\\)\{.*?(?<!\\)\}", re.DOTALL)


def format_message(message: str, values: Iterable[int]) -> str:
    r"""Put values in for the `{}` of a text, in order and in decimal; `\{` and `\}` are braces."""
    left = iter(values)
    text = PLACEHOLDER.sub(lambda found: str(next(left, found[0])), message)
    return text.replace("\\{", "{").replace("\\}", "}")
