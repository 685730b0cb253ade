"""Batches of table writes as compiled functions.

A batch is one call that holds the mutex, so the data plane sees all of it or nothing and never waits for
Python. An operation is a run of words: change, table row, match words, action, data words. The match words of
an exact table are its key words; `state.ranked` describes the match words of a ranked table, which
also has LPM, ternary, range or optional keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nativekit.compile import compiled, int64
from nativekit.libc import pthread_mutex_lock, pthread_mutex_unlock
from nativekit.records import Records
from softswitch.memory.layout import ENTRIES
from softswitch.memory.rows import Row, Words
from softswitch.native import entry_point
from softswitch.state.ranked import find_ranked, insert_ranked, remove_ranked
from softswitch.state.records import (
    bucket_record,
    empty_bucket,
    find_bucket,
    free_record,
    hash_key,
    point_bucket,
    record_at,
    store_action,
    store_word,
    take_record,
)

INSERT, MODIFY, DELETE = 1, 2, 3
OP_HEADER_WORDS = 2  # of an operation: change, table row
DONE, EXISTS, MISSING, FULL = 0, 1, 2, 3
NO_HINT = -(1 << 62)
_HASH_MASK = np.uint64(0x7FFFFFFF)  # makes a hash a small int64 that is not negative


@compiled
def _insert_exact(state: Words, table: Row, op: Words, start: int, stop: int) -> None:
    number = take_record(state, table)
    record = record_at(table, number)
    for i in range(table.key_words):
        store_word(state, table, record + i, op[start + i])
    store_action(state, table, number, op, start + table.key_words, stop)
    point_bucket(state, table, -1 - find_bucket(state, table, op, start), number)


@compiled
def _remove_exact(state: Words, table: Row, op: Words, start: int, number: int) -> None:
    empty_bucket(state, table, find_bucket(state, table, op, start))
    free_record(state, table, number)


@compiled
def _find_number(state: Words, table: Row, op: Words, start: int) -> int:
    if table.is_ranked:
        return find_ranked(state, table, op, start)
    position = find_bucket(state, table, op, start)
    return bucket_record(state, table, position) if position >= 0 else 0


@compiled
def _resolve(hint: int, numbers: npt.NDArray[np.int64]) -> int:
    """Return the number of a record that a hint names: by itself, or as that of a previous operation."""
    return hint if hint >= 0 else numbers[-1 - hint]


@compiled
def _write(
    state: Words,
    table: Row,
    op: Words,
    start: int,
    stop: int,
    change: int,
    index: int,
    hints: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
) -> int:
    predecessor = 0
    if len(hints) != 0 and hints[index, 0] != NO_HINT:
        number = _resolve(hints[index, 0], numbers)
        if hints[index, 1] != NO_HINT:
            predecessor = _resolve(hints[index, 1], numbers)
    else:
        number = _find_number(state, table, op, start)
    if change == INSERT:
        if number != 0:
            return EXISTS
        if state[table.header + ENTRIES] >= np.uint64(table.max_entries):
            return FULL
        if table.is_ranked:
            numbers[index] = insert_ranked(state, table, op, start, stop, predecessor, numbers)
        else:
            _insert_exact(state, table, op, start, stop)
    elif number == 0:
        return MISSING
    elif change == DELETE:
        if table.is_ranked:
            remove_ranked(state, table, number, predecessor, numbers)
        else:
            _remove_exact(state, table, op, start, number)
    else:
        match_words = table.key_words
        if table.is_ranked:
            match_words = 2 * table.field_words + 1 + table.bound_words
        store_action(state, table, number, op, start + match_words, stop)
    return DONE


@entry_point
def write_entries(
    state: Words,
    tables: Records[Row],
    ops: Words,
    starts: npt.NDArray[np.int64],
    results: npt.NDArray[np.int8],
    hints: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    mutex: int,
    waiting: Words,
) -> None:
    """Apply operations `ops[starts[i]:starts[i + 1]]`; each result is DONE, EXISTS, MISSING or FULL.

    `hints[i]` has the numbers of the entry's record (0: there is none) and of its predecessor in the chain,
    or NO_HINT; -1 - j names the record that operation j has inserted. Without hints it is empty. `numbers`
    must be zeroed; it gets the records of inserted ranked entries, and then the steps in chains. `mutex` is 0
    if the caller holds it.
    """
    if mutex != 0:
        waiting[0] = 1
        pthread_mutex_lock(mutex)
    for i in range(len(results)):
        table = tables[int64(ops[starts[i] + 1])]
        first, change = starts[i] + OP_HEADER_WORDS, int64(ops[starts[i]])
        results[i] = _write(state, table, ops, first, starts[i + 1], change, i, hints, numbers)
    if mutex != 0:
        pthread_mutex_unlock(mutex)
        waiting[0] = 0


@entry_point
def can_apply_all(
    state: Words,
    tables: Records[Row],
    ops: Words,
    starts: npt.NDArray[np.int64],
    entries: npt.NDArray[np.int64],
    seen_ops: npt.NDArray[np.int32],
) -> bool:
    """Return whether each operation would succeed and their keys differ; all tables must be exact.

    `entries` has the number of entries of each table, by row, and is changed. `seen_ops` must be zeroed; its
    size is a power of two, at least twice the number of operations.
    """
    mask = len(seen_ops) - 1
    for i in range(len(starts) - 1):
        change, row, key = int64(ops[starts[i]]), int64(ops[starts[i] + 1]), starts[i] + OP_HEADER_WORDS
        table = tables[row]
        if (find_bucket(state, table, ops, key) >= 0) == (change == INSERT):
            return False
        if change == INSERT:
            if entries[row] >= table.max_entries:
                return False
            entries[row] += 1
        elif change == DELETE:
            entries[row] -= 1
        slot = int64(hash_key(ops, key, table.key_words) & _HASH_MASK) + row & mask
        while seen_ops[slot] != 0:
            other_row = starts[seen_ops[slot] - 1] + 1  # offset of the table row, before the key
            is_same = int64(ops[other_row]) == row
            for word in range(table.key_words):
                if not is_same:
                    break
                is_same = ops[other_row + 1 + word] == ops[key + word]
            if is_same:
                return False
            slot = slot + 1 & mask
        seen_ops[slot] = i + 1  # 0 is a free slot
    return True


@entry_point
def find_records(
    state: Words,
    tables: Records[Row],
    ops: Words,
    starts: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
) -> None:
    """Store word offsets of entries' records, or -1; `ops[starts[i]:]` is a table row and the match words."""
    for i in range(len(offsets)):
        table = tables[int64(ops[starts[i]])]
        number = _find_number(state, table, ops, starts[i] + 1)
        offsets[i] = record_at(table, number) if number != 0 else -1
