"""A table's hash index and records in the block of memory (`codegen.layout`), as compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch.hashing import GOLDEN
from softswitch.memory.layout import TableLayout
from softswitch.native import compiled, int64

# Columns of a table's row in the descriptor array. Offsets are in words.
HEADER, BUCKETS, MASK, RECORDS, STRIDE, KEY_WORDS, ACTION, PARAMETERS, SIZE = range(9)
RANKED, FIELD_WORDS, BOUND_WORDS, GROUPS, ORDER, COLUMNS = range(9, 15)

# Words of a table's header, from HEADER; the default record follows.
COUNT, FREE, USED, GROUP_COUNT, HEADER_WORDS = range(5)

_MULTIPLIER = np.uint64(GOLDEN)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)
FREED = (1 << 64) - 1
"""The action of a record on the free list."""
_FREED = np.uint64(FREED)

Words = npt.NDArray[np.uint64]
Row = npt.NDArray[np.int64]


def describe(table: TableLayout) -> list[int]:
    """A table's row of the descriptor array."""
    return [
        table.header,
        table.buckets,
        table.bucket_count - 1,
        table.records,
        table.stride,
        table.key_words,
        table.action,
        table.parameters,
        table.table.size,
        int(table.is_ranked),
        table.field_words,
        table.bound_words,
        table.groups,
        table.order,
    ]


@compiled
def hash_key(key: Words, start: int, key_words: int) -> Any:
    """The same function as `codegen.tables.mix`."""
    hashed = np.uint64(0)
    for i in range(key_words):
        hashed = (hashed ^ key[start + i]) * _MULTIPLIER
        hashed ^= hashed >> _HALF
    return hashed


@compiled
def record_at(table: Row, number: int) -> Any:
    """Word offset of a record by its number, counted from 1."""
    return table[RECORDS] + (number - 1) * table[STRIDE]


@compiled
def bucket_record(state: Words, table: Row, position: int) -> Any:
    """Number of the record that a bucket points to."""
    return int64(state[table[BUCKETS] + position] & _LOW)


@compiled
def point_bucket(state: Words, table: Row, position: int, number: int) -> None:
    """Make a bucket point to a record, whose key decides the tag."""
    tag = hash_key(state, record_at(table, number), table[KEY_WORDS]) >> _HALF
    state[table[BUCKETS] + position] = (tag << _HALF) | np.uint64(number)


@compiled
def find(state: Words, table: Row, key: Words, start: int) -> Any:
    """The bucket that holds the key at `key[start:]`, or -1 - the empty bucket where it would go."""
    key_words = table[KEY_WORDS]
    hashed = hash_key(key, start, key_words)
    tag = hashed >> _HALF
    position = int64(hashed & np.uint64(table[MASK]))
    while True:
        bucket = state[table[BUCKETS] + position]
        if bucket == 0:
            return -1 - position
        if bucket >> _HALF == tag:
            record = record_at(table, int64(bucket & _LOW))
            same = True
            for i in range(key_words):
                same = same and state[record + i] == key[start + i]
            if same:
                return position
        position = (position + 1) & table[MASK]


@compiled
def empty_bucket(state: Words, table: Row, position: int) -> None:
    """Empty a bucket and close the gap, so that probing needs no tombstones."""
    mask, buckets = table[MASK], table[BUCKETS]
    gap = position
    scan = (position + 1) & mask
    while state[buckets + scan] != 0:
        moved = record_at(table, bucket_record(state, table, scan))
        home = int64(hash_key(state, moved, table[KEY_WORDS]) & np.uint64(mask))
        if ((scan - home) & mask) >= ((scan - gap) & mask):
            state[buckets + gap] = state[buckets + scan]
            gap = scan
        scan = (scan + 1) & mask
    state[buckets + gap] = 0


# ---- records


@compiled
def take_record(state: Words, table: Row) -> Any:
    """Number of a free record, zeroed and counted as used."""
    header = table[HEADER]
    number = int64(state[header + FREE])
    if number != 0:
        state[header + FREE] = state[record_at(table, number)]
    else:
        state[header + USED] += ONE
        number = int64(state[header + USED])
    state[header + COUNT] += ONE
    record = record_at(table, number)
    for i in range(table[STRIDE]):
        state[record + i] = 0
    return number


@compiled
def free_record(state: Words, table: Row, number: int) -> None:
    """Put a record on the free list."""
    header = table[HEADER]
    state[record_at(table, number)] = state[header + FREE]
    state[record_at(table, number) + table[ACTION]] = _FREED
    state[header + FREE] = np.uint64(number)
    state[header + COUNT] -= ONE


@compiled
def fill(state: Words, table: Row, number: int, op: Words, start: int, stop: int) -> None:
    """Store action and run-time data; what packets have left between them stays."""
    record = record_at(table, number)
    state[record + table[ACTION]] = op[start]
    at = record + table[PARAMETERS]
    for i in range(start + 1, stop):
        state[at + i - start - 1] = op[i]
