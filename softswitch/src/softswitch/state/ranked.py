"""Compiled functions for ranked tables (`memory.layout`); match words: key and mask words, rank, bounds."""

from __future__ import annotations

import numpy as np

from nativekit.compile import compiled, int64
from softswitch.memory.layout import GROUPS, HEADER_WORDS
from softswitch.memory.rows import Row, Words
from softswitch.state.records import (
    ONE,
    bucket_record,
    empty_bucket,
    find,
    free_record,
    point_bucket,
    record_at,
    store_action,
    store_word,
    take_record,
)


@compiled
def _group(state: Words, table: Row, op: Words, start: int) -> int:
    words = table.field_words
    for i in range(int64(state[table.header + GROUPS])):
        number = int64(state[table.order + i])
        group = table.groups + number * table.group_stride
        same = True
        for j in range(words):
            same = same and state[group + j] == op[start + j]
        if same:
            return number
    return int64(-1)


@compiled
def _new_group(state: Words, table: Row, op: Words, start: int) -> int:
    """Create a group with these mask words, at the end of the order."""
    words = table.field_words
    number = 0
    while state[table.groups + number * table.group_stride + table.group_entries] != 0:
        number += 1
    group = table.groups + number * table.group_stride
    for j in range(words):
        store_word(state, table, group + j, op[start + j])
    store_word(state, table, group + table.group_rank, 0)
    store_word(state, table, table.order + int64(state[table.header + GROUPS]), np.uint64(number))
    store_word(state, table, table.header + GROUPS, state[table.header + GROUPS] + ONE)
    return number


@compiled
def _join_group(state: Words, table: Row, number: int, rank: np.uint64) -> None:
    """Increment a group's number of entries, and keep the groups in order of descending rank."""
    group = table.groups + number * table.group_stride
    rank_at = group + table.group_rank
    store_word(state, table, group + table.group_entries, state[group + table.group_entries] + ONE)
    store_word(state, table, rank_at, max(state[rank_at], rank))
    order = table.order
    position = 0
    while int64(state[order + position]) != number:
        position += 1
    while position > 0:
        before = int64(state[order + position - 1])
        if state[table.groups + before * table.group_stride + table.group_rank] >= state[rank_at]:
            break
        store_word(state, table, order + position, np.uint64(before))
        position -= 1
    store_word(state, table, order + position, np.uint64(number))


@compiled
def _leave_group(state: Words, table: Row, number: int) -> None:
    """Decrement a group's number of entries; remove it if empty, else keep its rank as an upper bound."""
    count_at = table.groups + number * table.group_stride + table.group_entries
    store_word(state, table, count_at, state[count_at] - ONE)
    if state[count_at] == 0:
        last = int64(state[table.header + GROUPS]) - 1
        order = table.order
        position = 0
        while int64(state[order + position]) != number:
            position += 1
        for i in range(position, last):
            store_word(state, table, order + i, state[order + i + 1])
        store_word(state, table, table.header + GROUPS, np.uint64(last))


@compiled
def _find_in_group(state: Words, table: Row, op: Words, start: int, group: int) -> int:
    """Look up masked key words and the group's number, combined in the default record's unused key."""
    key = table.header + HEADER_WORDS
    for i in range(table.field_words):
        state[key + i] = op[start + i]
    state[key + table.field_words] = np.uint64(group)
    return find(state, table, state, key)


@compiled
def _next(state: Words, table: Row, number: int) -> int:
    return int64(state[record_at(table, number) + table.link])


@compiled
def _link(state: Words, table: Row, position: int, before: int, number: int) -> None:
    """Make a record (0: none) follow `before`, or the first of its bucket if `before` is 0."""
    if before != 0:
        store_word(state, table, record_at(table, before) + table.link, np.uint64(number))
    elif number != 0:
        point_bucket(state, table, position, number)
    else:
        empty_bucket(state, table, position)


@compiled
def _is_entry(state: Words, table: Row, number: int, op: Words, start: int) -> bool:
    record = record_at(table, number)
    rank_at = start + 2 * table.field_words
    if state[record + table.rank] != op[rank_at]:
        return False
    same = True
    for i in range(table.bound_words):
        same = same and state[record + table.bounds + i] == op[rank_at + 1 + i]
    return same


@compiled
def find_ranked(state: Words, table: Row, op: Words, start: int) -> int:
    group = _group(state, table, op, start + table.field_words)
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
def insert_ranked(state: Words, table: Row, op: Words, start: int, stop: int) -> None:
    """Add a new entry to its group, and to the chain of its key in order of rank."""
    words = table.field_words
    rank = op[start + 2 * words]
    group = _group(state, table, op, start + words)
    if group < 0:
        group = _new_group(state, table, op, start + words)
    number = take_record(state, table)
    record = record_at(table, number)
    for i in range(words):
        store_word(state, table, record + i, op[start + i])
    store_word(state, table, record + words, np.uint64(group))
    store_word(state, table, record + table.rank, rank)
    for i in range(table.bound_words):
        store_word(state, table, record + table.bounds + i, op[start + 2 * words + 1 + i])
    store_action(state, table, number, op, start + 2 * words + 1 + table.bound_words, stop)
    position = _find_in_group(state, table, op, start, group)
    if position < 0:
        point_bucket(state, table, -1 - position, number)
    else:
        before, following = int64(0), bucket_record(state, table, position)
        while following != 0 and state[record_at(table, following) + table.rank] >= rank:
            before, following = following, _next(state, table, following)
        store_word(state, table, record + table.link, np.uint64(following))
        _link(state, table, position, before, number)
    _join_group(state, table, group, rank)


@compiled
def remove_ranked(state: Words, table: Row, number: int) -> None:
    record = record_at(table, number)
    group = int64(state[record + table.field_words])
    position = find(state, table, state, record)
    before, scan = int64(0), bucket_record(state, table, position)
    while scan != number:
        before, scan = scan, _next(state, table, scan)
    _link(state, table, position, before, _next(state, table, number))
    free_record(state, table, number)
    _leave_group(state, table, group)
