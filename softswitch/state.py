"""The control plane's hand in the compiled pipeline's memory: the entries of tables.

Memory is an array of 64-bit words laid out by `codegen.layout`. A batch of table writes is one call of
compiled code that holds the lock, so the data plane sees all or nothing of it and never waits for Python.
An operation is a run of words: change, table row, then as `Entry` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch.codegen.layout import TableLayout
from softswitch.codegen.tables import MULTIPLIER
from softswitch.native import compiled, entry_point, int64, pthread_mutex_lock, pthread_mutex_unlock

INSERT, MODIFY, DELETE = 1, 2, 3
DONE, EXISTS, MISSING, FULL = 0, 1, 2, 3

# Columns of a table's row in the descriptor array. Offsets are in words.
HEADER, BUCKETS, MASK, RECORDS, STRIDE, KEY_WORDS, ACTION, COUNTER_WORDS, SIZE = range(9)
RANKED, FIELD_WORDS, BOUND_WORDS, GROUPS, ORDER, COLUMNS = range(9, 15)

# Words of a table's header, from HEADER; the default record follows.
COUNT, FREE, USED, GROUP_COUNT, HEADER_WORDS = range(5)

_MULTIPLIER = np.uint64(MULTIPLIER)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)

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
        2 if table.table.has_counter else 0,
        table.table.size,
        int(table.is_ranked),
        table.field_words,
        table.bound_words,
        table.groups,
        table.order,
    ]


# ---- the hash index


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
        state[header + USED] += _ONE
        number = int64(state[header + USED])
    state[header + COUNT] += _ONE
    record = record_at(table, number)
    for i in range(table[STRIDE]):
        state[record + i] = 0
    return number


@compiled
def free_record(state: Words, table: Row, number: int) -> None:
    """Put a record on the free list."""
    header = table[HEADER]
    state[record_at(table, number)] = state[header + FREE]
    state[header + FREE] = np.uint64(number)
    state[header + COUNT] -= _ONE


@compiled
def fill(state: Words, table: Row, number: int, op: Words, start: int, stop: int) -> None:
    """Store action and run-time data; the counter between them stays."""
    at = record_at(table, number) + table[ACTION]
    state[at] = op[start]
    at += 1 + table[COUNTER_WORDS]
    for i in range(start + 1, stop):
        state[at + i - start - 1] = op[i]


# ---- ranked tables: key words | mask words | rank | bounds


@compiled
def _group(state: Words, table: Row, op: Words, start: int) -> Any:
    """Number of the group of these mask words, or -1."""
    words = table[FIELD_WORDS]
    for i in range(int64(state[table[HEADER] + GROUP_COUNT])):
        number = int64(state[table[ORDER] + i])
        group = table[GROUPS] + number * (words + 2)
        same = True
        for j in range(words):
            same = same and state[group + j] == op[start + j]
        if same:
            return number
    return int64(-1)


@compiled
def _new_group(state: Words, table: Row, op: Words, start: int) -> Any:
    """Give these mask words a group, for now the last in order."""
    words = table[FIELD_WORDS]
    number = 0
    while state[table[GROUPS] + number * (words + 2) + words + 1] != 0:
        number += 1
    group = table[GROUPS] + number * (words + 2)
    for j in range(words):
        state[group + j] = op[start + j]
    state[group + words] = 0
    state[table[ORDER] + int64(state[table[HEADER] + GROUP_COUNT])] = np.uint64(number)
    state[table[HEADER] + GROUP_COUNT] += _ONE
    return number


@compiled
def _join_group(state: Words, table: Row, number: int, rank: int) -> None:
    """Count one more entry of a group, and keep the order by falling rank."""
    stride = table[FIELD_WORDS] + 2
    highest = table[FIELD_WORDS]
    group = table[GROUPS] + number * stride
    state[group + highest + 1] += _ONE
    state[group + highest] = max(state[group + highest], rank)
    order = table[ORDER]
    place = 0
    while int64(state[order + place]) != number:
        place += 1
    while place > 0:
        before = int64(state[order + place - 1])
        if state[table[GROUPS] + before * stride + highest] >= state[group + highest]:
            break
        state[order + place] = np.uint64(before)
        place -= 1
    state[order + place] = np.uint64(number)


@compiled
def _leave_group(state: Words, table: Row, number: int) -> None:
    """Count one entry less; an empty group is out of use. (Its highest rank stays an upper bound.)"""
    entries = table[GROUPS] + number * (table[FIELD_WORDS] + 2) + table[FIELD_WORDS] + 1
    state[entries] -= _ONE
    if state[entries] == 0:
        last = int64(state[table[HEADER] + GROUP_COUNT]) - 1
        order = table[ORDER]
        place = 0
        while int64(state[order + place]) != number:
            place += 1
        for i in range(place, last):
            state[order + i] = state[order + i + 1]
        state[table[HEADER] + GROUP_COUNT] = np.uint64(last)


@compiled
def _find_in_group(state: Words, table: Row, op: Words, start: int, group: int) -> Any:
    """`find` of the masked key words and the group's number, put together in the default record's key."""
    key = table[HEADER] + HEADER_WORDS
    for i in range(table[FIELD_WORDS]):
        state[key + i] = op[start + i]
    state[key + table[FIELD_WORDS]] = np.uint64(group)
    return find(state, table, state, key)


@compiled
def _next(state: Words, table: Row, number: int) -> Any:
    """Number of the record that follows in a chain, or 0."""
    return int64(state[record_at(table, number) + table[KEY_WORDS] + 1])


@compiled
def _link(state: Words, table: Row, position: int, before: int, number: int) -> None:
    """Make a record (0: none) follow `before`, or be the first of its bucket."""
    if before != 0:
        state[record_at(table, before) + table[KEY_WORDS] + 1] = np.uint64(number)
    elif number != 0:
        point_bucket(state, table, position, number)
    else:
        empty_bucket(state, table, position)


@compiled
def _is_entry(state: Words, table: Row, number: int, op: Words, start: int) -> Any:
    """Whether a record of the right key has the operation's rank and bounds."""
    record = record_at(table, number) + table[KEY_WORDS]
    given = start + 2 * table[FIELD_WORDS]
    if state[record] != op[given]:
        return False
    same = True
    for i in range(table[BOUND_WORDS]):
        same = same and state[record + 2 + i] == op[given + 1 + i]
    return same


@compiled
def find_ranked(state: Words, table: Row, op: Words, start: int) -> Any:
    """Number of a ranked table's record, or 0."""
    group = _group(state, table, op, start + table[FIELD_WORDS])
    if group < 0:
        return int64(0)
    position = _find_in_group(state, table, op, start, group)
    if position < 0:
        return int64(0)
    number = bucket_record(state, table, position)
    while number != 0 and not _is_entry(state, table, number, op, start):
        number = _next(state, table, number)
    return number


@compiled
def _insert_ranked(state: Words, table: Row, op: Words, start: int, stop: int) -> None:
    words, key_words = table[FIELD_WORDS], table[KEY_WORDS]
    rank = op[start + 2 * words]
    group = _group(state, table, op, start + words)
    if group < 0:
        group = _new_group(state, table, op, start + words)
    number = take_record(state, table)
    record = record_at(table, number)
    for i in range(words):
        state[record + i] = op[start + i]
    state[record + words] = np.uint64(group)
    state[record + key_words] = rank
    for i in range(table[BOUND_WORDS]):
        state[record + key_words + 2 + i] = op[start + 2 * words + 1 + i]
    fill(state, table, number, op, start + 2 * words + 1 + table[BOUND_WORDS], stop)
    position = _find_in_group(state, table, op, start, group)
    if position < 0:
        point_bucket(state, table, -1 - position, number)
    else:
        before, following = int64(0), bucket_record(state, table, position)
        while following != 0 and state[record_at(table, following) + key_words] >= rank:
            before, following = following, _next(state, table, following)
        state[record + key_words + 1] = np.uint64(following)
        _link(state, table, position, before, number)
    _join_group(state, table, group, rank)


@compiled
def _remove_ranked(state: Words, table: Row, number: int) -> None:
    record = record_at(table, number)
    group = int64(state[record + table[FIELD_WORDS]])
    position = find(state, table, state, record)
    before, scan = int64(0), bucket_record(state, table, position)
    while scan != number:
        before, scan = scan, _next(state, table, scan)
    _link(state, table, position, before, _next(state, table, number))
    free_record(state, table, number)
    _leave_group(state, table, group)


# ---- exact tables: key words


@compiled
def _insert_exact(state: Words, table: Row, op: Words, start: int, stop: int) -> None:
    number = take_record(state, table)
    record = record_at(table, number)
    for i in range(table[KEY_WORDS]):
        state[record + i] = op[start + i]
    fill(state, table, number, op, start + table[KEY_WORDS], stop)
    point_bucket(state, table, -1 - find(state, table, op, start), number)


@compiled
def _remove_exact(state: Words, table: Row, op: Words, start: int, number: int) -> None:
    empty_bucket(state, table, find(state, table, op, start))
    free_record(state, table, number)


# ---- both


@compiled
def _number_of(state: Words, table: Row, op: Words, start: int) -> Any:
    """Number of the entry's record, or 0."""
    if table[RANKED]:
        return find_ranked(state, table, op, start)
    position = find(state, table, op, start)
    return bucket_record(state, table, position) if position >= 0 else int64(0)


@compiled
def _write(state: Words, table: Row, op: Words, start: int, stop: int, change: int) -> Any:
    number = _number_of(state, table, op, start)
    if change == INSERT:
        if number != 0:
            return EXISTS
        if state[table[HEADER] + COUNT] >= np.uint64(table[SIZE]):
            return FULL
        if table[RANKED]:
            _insert_ranked(state, table, op, start, stop)
        else:
            _insert_exact(state, table, op, start, stop)
    elif number == 0:
        return MISSING
    elif change == DELETE:
        if table[RANKED]:
            _remove_ranked(state, table, number)
        else:
            _remove_exact(state, table, op, start, number)
    else:
        match_words = table[KEY_WORDS]
        if table[RANKED]:
            match_words = 2 * table[FIELD_WORDS] + 1 + table[BOUND_WORDS]
        fill(state, table, number, op, start + match_words, stop)
    return DONE


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
    """Apply operations `ops[starts[i]:starts[i + 1]]`: change, table row, match words, action, data words."""
    waiting[0] = 1
    pthread_mutex_lock(mutex)
    for i in range(len(results)):
        table = tables[int64(ops[starts[i] + 1])]
        results[i] = _write(state, table, ops, starts[i] + 2, starts[i + 1], int64(ops[starts[i]]))
    pthread_mutex_unlock(mutex)
    waiting[0] = 0


@entry_point
def find_record(state: Words, table: Row, op: Words) -> Any:
    """Word offset of an entry's record, or -1; `op` holds the match words alone."""
    number = _number_of(state, table, op, 0)
    return record_at(table, number) if number != 0 else int64(-1)
