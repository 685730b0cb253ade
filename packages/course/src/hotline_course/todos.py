"""TODO comments of a skeleton that a submission's files still have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_TODO = re.compile(r"(?://|#)\s*(TODO \d+: .*)")
_COMMENT = re.compile(r"\s*(?://|#)\s*(.*)")
_MAX_CHARACTERS = 300


def remaining_todos(files: Mapping[str, bytes], names: Sequence[str]) -> list[str]:
    """Return the TODO comments of the named files in the order of their numbers, each with its place."""
    found = [each for name in names for each in _todos_of(name, files.get(name, b""))]
    return [text for _, text in sorted(found, key=lambda each: each[0])]


def _todos_of(name: str, data: bytes) -> Iterator[tuple[int, str]]:
    lines = data.decode(errors="replace").splitlines()
    for index, line in enumerate(lines):
        if match := _TODO.search(line):
            text = " ".join([match[1].rstrip(), *_continuation(lines[index + 1 :])])[:_MAX_CHARACTERS]
            yield int(re.findall(r"\d+", text)[0]), f"{name}, line {index + 1}: {text}"


def _continuation(lines: Sequence[str]) -> Iterator[str]:
    """Yield the further lines of a comment."""
    for line in lines:
        match = _COMMENT.fullmatch(line)
        if match is None or _TODO.search(line):
            return
        yield match[1].rstrip()
