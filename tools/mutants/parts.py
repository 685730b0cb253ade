"""Parts of a run, which can run in parallel."""

from __future__ import annotations

import re

import click


def part_of(text: str) -> tuple[slice, str]:
    """Return the mutants of part `K/N` (every Nth), and the folder of its results; "" for 1/1."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or (k := int(match[1])) > (n := int(match[2])):
        raise click.BadParameter(f"{text}: expected K/N with K from 1 to N, such as 1/4", param_hint="--part")
    return slice(k - 1, None, n), f"{k}of{n}" if n > 1 else ""
