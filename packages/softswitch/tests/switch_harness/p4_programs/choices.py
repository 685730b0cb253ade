"""Sources of random choices: Hypothesis, which can shrink them, or a seed, which is fast."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1; lower ones are simpler."""


class SeededChoices:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class HypothesisChoices:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return 0 if limit == 1 else self._draw(st.integers(0, limit - 1))


class Chooser:
    """Choices of items, of widths and of numbers at the edges of their range."""

    def __init__(self, choices: Choices) -> None:
        self.below = choices.below

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def chance(self, percent: int) -> bool:
        """Return whether something with a probability happens; if choices are shrunk, it does not."""
        return self.below(100) >= 100 - percent

    def number(self, width: int) -> int:
        """Return a number of bits, often a small one, a large one, or a power of two."""
        kind = self.below(6)
        if kind < 2:
            return self.below(min(1 << width, 4))
        if kind == 2:
            return (1 << width) - 1 - self.below(min(1 << width, 3))
        if kind == 3:
            return 1 << self.below(width)
        return self.below(1 << width)
