"""Texts that differ only in their numbers, such as those of a program's lanes, as one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

MIN_ALIKE = 3
"""Minimum number of alike items in a row that are folded into one."""
_MAX_PERIOD = 24  # items that are repeated together, as the lines of one lane
_MAX_LISTED = 4  # values that a folded text names before and after an ellipsis
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


def shape_of(text: str) -> str:
    """Return a text without its numbers, which alike texts share."""
    return _NUMBER.sub("#", text)


def merge(texts: Sequence[str]) -> str:
    """Return one text for alike ones: a number that counts up is a range (`00-31`), others are listed."""
    if len(texts) == 1:
        return texts[0]
    columns = zip(*map(_NUMBER.findall, texts), strict=True)
    merged = iter([_merge_numbers(column) for column in columns])
    return _NUMBER.sub(lambda _: next(merged), texts[0])


def _merge_numbers(numbers: Sequence[str]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
    if _counts_up(numbers):
        return f"{numbers[0]}-{numbers[-1]}"
    if len(numbers) > _MAX_LISTED:
        return f"{{{numbers[0]}, {numbers[1]}, … {numbers[-1]}}}"
    return f"{{{', '.join(numbers)}}}"


def _counts_up(numbers: Sequence[str]) -> bool:
    values = [int(number, 0) if number.startswith("0x") else int(number) for number in numbers]
    return values == list(range(values[0], values[0] + len(values)))


def fold_names(names: Iterable[str]) -> list[str]:
    """Return names in order of their first, those that differ in one number that counts up as one name."""
    by_shape: dict[str, list[str]] = {}
    for name in names:
        by_shape.setdefault(shape_of(name), []).append(name)
    folded: list[str] = []
    for alike in by_shape.values():
        columns = list(zip(*map(_NUMBER.findall, alike), strict=True))
        varying = [column for column in columns if len(set(column)) > 1]
        if len(alike) >= MIN_ALIKE and all(map(_counts_up, varying)):
            folded.append(merge(alike))
        else:
            folded += alike
    return folded


def repetitions(items: Sequence[T], shape: Callable[[T], object]) -> list[list[Sequence[T]]]:
    """Divide items into runs of blocks of one shape; a run has one block, or at least `MIN_ALIKE`."""
    shapes, runs, at = list(map(shape, items)), list[list[Sequence[T]]](), 0
    while at < len(items):
        period, count = _longest_repetition(shapes, at)
        runs.append([items[start : start + period] for start in range(at, at + period * count, period)])
        at += period * count
    return runs


def _longest_repetition(shapes: Sequence[object], start: int) -> tuple[int, int]:
    """Return the period and number of the blocks from `start` on that cover most items: (1, 1) if none do."""
    best = (1, 1)
    for period in range(1, _MAX_PERIOD + 1):
        first, count = shapes[start : start + period], 1
        while shapes[start + count * period : start + (count + 1) * period] == first:
            count += 1
        if count >= MIN_ALIKE and period * count > best[0] * best[1]:
            best = (period, count)
    return best
