"""Numbers as 64-bit words, of which the shared memory consists."""

from __future__ import annotations

from collections.abc import Sequence

WORD = 64  # bits
WORD_BYTES = WORD // 8
WORD_MASK = (1 << WORD) - 1
HALF = 32
"""Bits of each of two numbers in a word: tag and record, first and length of a run, port and instance."""
LOW_HALF_MASK = (1 << HALF) - 1


def words_of(bits: int) -> int:
    """Return the number of words that hold `bits` bits, at least 1."""
    return max(1, -(-bits // WORD))


def split_words(value: int, count: int) -> list[int]:
    """Split an integer into `count` words, least significant first."""
    if count == 1:
        return [value]
    return [value >> (WORD * i) & WORD_MASK for i in range(count)]


def join_words(words: Sequence[int]) -> int:
    value = 0
    for word in reversed(words):
        value = value << WORD | word
    return value


def pack_halves(high: int, low: int) -> int:
    return high << HALF | low
