"""The shared memory is words of 64 bits; numbers of other widths as words, and two halves in one."""

from __future__ import annotations

from collections.abc import Sequence

WORD = 64
WORD_BYTES = WORD // 8
WORD_MASK = (1 << WORD) - 1
HALF = 32
"""Two numbers share a word: bucket (tag, record), run (first, length), replica (port, instance)."""
LOW = (1 << HALF) - 1


def words_of(bits: int) -> int:
    """Words that hold `bits` bits, at least one."""
    return max(1, -(-bits // WORD))


def split_words(value: int, count: int) -> list[int]:
    """An integer as `count` words, least significant first."""
    if count == 1:
        return [value]
    return [value >> (WORD * i) & WORD_MASK for i in range(count)]


def join_words(words: Sequence[int]) -> int:
    """The inverse of `split_words`."""
    value = 0
    for word in reversed(words):
        value = value << WORD | word
    return value


def pack_halves(high: int, low: int) -> int:
    """Two numbers in one word."""
    return high << HALF | low
