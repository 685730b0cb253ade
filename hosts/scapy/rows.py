"""Rows: tuples of 32-bit numbers that wrap, and the number of values, the dim, of each key's row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from foundation.designs.combination import Combination
from foundation.designs.combination import combine as combine_words
from foundation.protocol.rows import RowRanges

MODULUS = 2**32
_SIGN = 2**31
Row: TypeAlias = tuple[int, ...]


def dim_of(key: int, ranges: RowRanges) -> int:
    return ranges[bisect_right(ranges, key, key=lambda each: each.first) - 1].dim


def by_dim(keys: Iterable[int], ranges: RowRanges) -> list[tuple[int, list[int]]]:
    """Return dims in ascending order, each with its keys in their order: an RPC has rows of one dim."""
    groups: dict[int, list[int]] = {}
    for key in keys:
        groups.setdefault(dim_of(key, ranges), []).append(key)
    return sorted(groups.items())


def zeros(dim: int) -> Row:
    return (0,) * dim


def add(row: Row, delta: Row) -> Row:
    return tuple((value + each) % MODULUS for value, each in zip(row, delta, strict=True))


def combine(combination: Combination, row: Row, pushed: Row) -> Row:
    """Return a row after a push."""
    return tuple(combine_words(combination.code, *each) for each in zip(row, pushed, strict=True))


def negate(row: Row) -> Row:
    return tuple(-value % MODULUS for value in row)


def overflows(row: Row, delta: Row, total: Row) -> bool:
    """Return whether any sum has overflowed as a signed number."""
    return any(
        (value ^ result) & (each ^ result) & _SIGN
        for value, each, result in zip(row, delta, total, strict=True)
    )


def split_rows(values: Sequence[int], dims: Iterable[int]) -> Iterator[Row]:
    """Yield the rows that `values` has one after the other."""
    start = 0
    for dim in dims:
        yield tuple(values[start : start + dim])
        start += dim
