"""The control plane's hand in the compiled pipeline's memory: entries, default actions, counters, registers.

Memory is an array of 64-bit words laid out by `codegen.layout`. A batch of table writes is one call of
compiled code that holds the lock, so the data plane sees all or nothing of it and never waits for Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch.codegen.layout import TableLayout
from softswitch.codegen.tables import MULTIPLIER
from softswitch.native import compiled, entry_point, pthread_mutex_lock, pthread_mutex_unlock

INSERT, MODIFY, DELETE = 1, 2, 3
DONE, EXISTS, MISSING, FULL = 0, 1, 2, 3

# Columns of a table's row in the descriptor array.
HEADER, BUCKETS, MASK, RECORDS, STRIDE, KEY_WORDS, COUNTER_WORDS, SIZE = range(8)

_MULTIPLIER = np.uint64(MULTIPLIER)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)

Words = npt.NDArray[np.uint64]


def describe(table: TableLayout) -> list[int]:
    """A table's row of the descriptor array."""
    counter_words = 2 if table.table.has_counter else 0
    return [
        table.header,
        table.buckets,
        table.bucket_count - 1,
        table.records,
        table.stride,
        table.key_words,
        counter_words,
        table.table.size,
    ]


@compiled
def hash_key(op: Words, start: int, key_words: int) -> Any:
    """The same function as `codegen.tables.mix`."""
    hashed = np.uint64(0)
    for i in range(key_words):
        hashed = (hashed ^ op[start + i]) * _MULTIPLIER
        hashed ^= hashed >> _HALF
    return hashed


@compiled
def find(state: Words, table: npt.NDArray[np.int64], op: Words, start: int) -> Any:
    """The bucket that holds the key at `op[start:]`, or -1 - the empty bucket where it would go."""
    key_words = table[KEY_WORDS]
    hashed = hash_key(op, start, key_words)
    tag = hashed >> _HALF
    position = np.int64(hashed & np.uint64(table[MASK]))
    while True:
        bucket = state[table[BUCKETS] + position]
        if bucket == 0:
            return -1 - position
        if bucket >> _HALF == tag:
            record = table[RECORDS] + (np.int64(bucket & _LOW) - 1) * table[STRIDE]
            same = True
            for i in range(key_words):
                same = same and state[record + i] == op[start + i]
            if same:
                return position
        position = (position + 1) & table[MASK]


@compiled
def _remove(state: Words, table: npt.NDArray[np.int64], position: int) -> None:
    """Empty a bucket and close the gap, so that probing needs no tombstones."""
    mask, buckets, stride = table[MASK], table[BUCKETS], table[STRIDE]
    number = np.int64(state[buckets + position] & _LOW)
    record = table[RECORDS] + (number - 1) * stride
    state[record] = state[table[HEADER] + 1]
    state[table[HEADER] + 1] = np.uint64(number)
    state[table[HEADER]] -= _ONE
    gap = position
    scan = (position + 1) & mask
    while state[buckets + scan] != 0:
        moved = table[RECORDS] + (np.int64(state[buckets + scan] & _LOW) - 1) * stride
        home = np.int64(hash_key(state, moved, table[KEY_WORDS]) & np.uint64(mask))
        if ((scan - home) & mask) >= ((scan - gap) & mask):
            state[buckets + gap] = state[buckets + scan]
            gap = scan
        scan = (scan + 1) & mask
    state[buckets + gap] = 0


@compiled
def _insert(
    state: Words, table: npt.NDArray[np.int64], op: Words, start: int, stop: int, position: int
) -> None:
    header, stride, key_words = table[HEADER], table[STRIDE], table[KEY_WORDS]
    number = np.int64(state[header + 1])
    if number != 0:
        state[header + 1] = state[table[RECORDS] + (number - 1) * stride]
    else:
        state[header + 2] += _ONE
        number = np.int64(state[header + 2])
    state[header] += _ONE
    record = table[RECORDS] + (number - 1) * stride
    for i in range(stride):
        state[record + i] = 0
    for i in range(key_words):
        state[record + i] = op[start + i]
    _fill(state, table, record, op, start + key_words, stop)
    tag = hash_key(op, start, key_words) >> _HALF
    state[table[BUCKETS] + position] = (tag << _HALF) | np.uint64(number)


@compiled
def _fill(state: Words, table: npt.NDArray[np.int64], record: int, op: Words, start: int, stop: int) -> None:
    """Store action and run-time data; the counter between them stays."""
    at = record + table[KEY_WORDS]
    state[at] = op[start]
    at += 1 + table[COUNTER_WORDS]
    for i in range(start + 1, stop):
        state[at + i - start - 1] = op[i]


@entry_point
def write_entries(
    state: Words,
    tables: npt.NDArray[np.int64],
    ops: Words,
    starts: npt.NDArray[np.int64],
    results: npt.NDArray[np.int8],
    mutex: int,
    waiting: Words,
) -> None:
    """Apply operations `ops[starts[i]:starts[i + 1]]`: change, table row, key words, action, data words."""
    waiting[0] = 1
    pthread_mutex_lock(mutex)
    for i in range(len(results)):
        change, start, stop = ops[starts[i]], starts[i] + 2, starts[i + 1]
        table = tables[np.int64(ops[starts[i] + 1])]
        position = find(state, table, ops, start)
        if change == INSERT:
            if position >= 0:
                results[i] = EXISTS
            elif state[table[HEADER]] >= np.uint64(table[SIZE]):
                results[i] = FULL
            else:
                _insert(state, table, ops, start, stop, -1 - position)
        elif position < 0:
            results[i] = MISSING
        elif change == DELETE:
            _remove(state, table, position)
        else:
            bucket = state[table[BUCKETS] + position]
            record = table[RECORDS] + (np.int64(bucket & _LOW) - 1) * table[STRIDE]
            _fill(state, table, record, ops, start + table[KEY_WORDS], stop)
    pthread_mutex_unlock(mutex)
    waiting[0] = 0


@entry_point
def find_record(state: Words, table: npt.NDArray[np.int64], key: Words) -> Any:
    """Word offset of an entry's record, or -1."""
    position = find(state, table, key, 0)
    if position < 0:
        return np.int64(-1)
    return table[RECORDS] + (np.int64(state[table[BUCKETS] + position] & _LOW) - 1) * table[STRIDE]
