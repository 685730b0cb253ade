"""Compiled functions for ranked tables (`memory.layout`); `op[start:]` is masked key, mask, rank, bounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nativekit.compile import compiled, int64
from softswitch.memory.layout import GROUPS, HEADER_WORDS
from softswitch.memory.rows import Row, Words
from softswitch.state.records import (
    ONE,
    bucket_record,
    empty_bucket,
    find_bucket,
    free_record,
    point_bucket,
    record_at,
    store_action,
    store_word,
    take_record,
)


@compiled
def _find_group(state: Words, table: Row, op: Words, mask_start: int) -> int:
    field_words = table.field_words
    for i in range(int64(state[table.header + GROUPS])):
        number = int64(state[table.order + i])
        group = table.groups + number * table.group_stride
        is_same = True
        for j in range(field_words):
            is_same = is_same and state[group + j] == op[mask_start + j]
        if is_same:
            return number
    return -1


@compiled
def _create_group(state: Words, table: Row, op: Words, mask_start: int) -> int:
    """Create a group with the mask at `op[mask_start:]`, at the end of the order."""
    field_words = table.field_words
    number = 0
    while state[table.groups + number * table.group_stride + table.group_entries] != 0:
        number += 1
    group = table.groups + number * table.group_stride
    for j in range(field_words):
        store_word(state, table, group + j, op[mask_start + j])
    store_word(state, table, group + table.group_rank, 0)
    store_word(state, table, table.order + int64(state[table.header + GROUPS]), np.uint64(number))
    store_word(state, table, table.header + GROUPS, state[table.header + GROUPS] + ONE)
    return number


@compiled
def _join_group(state: Words, table: Row, number: int, rank: np.uint64) -> None:
    """Increment a group's number of entries, and keep the groups in order of descending rank."""
    group = table.groups + number * table.group_stride
    rank_offset = group + table.group_rank
    store_word(state, table, group + table.group_entries, state[group + table.group_entries] + ONE)
    store_word(state, table, rank_offset, max(state[rank_offset], rank))
    order = table.order
    position = 0
    while int64(state[order + position]) != number:
        position += 1
    while position > 0:
        predecessor = int64(state[order + position - 1])
        if state[table.groups + predecessor * table.group_stride + table.group_rank] >= state[rank_offset]:
            break
        store_word(state, table, order + position, np.uint64(predecessor))
        position -= 1
    store_word(state, table, order + position, np.uint64(number))


@compiled
def _leave_group(state: Words, table: Row, number: int) -> None:
    """Decrement a group's number of entries; remove it if empty, else keep its rank as an upper bound."""
    count_offset = table.groups + number * table.group_stride + table.group_entries
    store_word(state, table, count_offset, state[count_offset] - ONE)
    if state[count_offset] == 0:
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
    """Look up masked key and group number, which are copied to the default record's unused key words."""
    key = table.header + HEADER_WORDS
    for i in range(table.field_words):
        state[key + i] = op[start + i]
    state[key + table.field_words] = np.uint64(group)
    return find_bucket(state, table, state, key)


@compiled
def _next_record(state: Words, table: Row, number: int) -> int:
    return int64(state[record_at(table, number) + table.link])


@compiled
def _link_record(state: Words, table: Row, position: int, predecessor: int, number: int) -> None:
    """Make a record (0: none) follow `predecessor`, or the first of its bucket if `predecessor` is 0."""
    if predecessor != 0:
        store_word(state, table, record_at(table, predecessor) + table.link, np.uint64(number))
    elif number != 0:
        point_bucket(state, table, position, number)
    else:
        empty_bucket(state, table, position)


@compiled
def _matches_entry(state: Words, table: Row, number: int, op: Words, start: int) -> bool:
    record = record_at(table, number)
    rank_offset = start + 2 * table.field_words
    if state[record + table.rank] != op[rank_offset]:
        return False
    is_same = True
    for i in range(table.bound_words):
        is_same = is_same and state[record + table.bounds + i] == op[rank_offset + 1 + i]
    return is_same


@compiled
def find_ranked(state: Words, table: Row, op: Words, start: int) -> int:
    group = _find_group(state, table, op, start + table.field_words)
    if group < 0:
        return 0
    position = _find_in_group(state, table, op, start, group)
    if position < 0:
        return 0
    number = bucket_record(state, table, position)
    while number != 0 and not _matches_entry(state, table, number, op, start):
        number = _next_record(state, table, number)
    return number


@compiled
def insert_ranked(
    state: Words, table: Row, op: Words, start: int, stop: int, hint: int, numbers: npt.NDArray[np.int64]
) -> int:
    """Add a new entry to its group, and to the chain of its key in order of rank; return its number.

    `hint` is its predecessor in the chain, or another of equal or higher rank, or 0. The last element of
    `numbers` counts the steps in the chain.
    """
    field_words = table.field_words
    rank = op[start + 2 * field_words]
    group = _find_group(state, table, op, start + field_words)
    if group < 0:
        group = _create_group(state, table, op, start + field_words)
    number = take_record(state, table)
    record = record_at(table, number)
    for i in range(field_words):
        store_word(state, table, record + i, op[start + i])
    store_word(state, table, record + field_words, np.uint64(group))
    store_word(state, table, record + table.rank, rank)
    for i in range(table.bound_words):
        store_word(state, table, record + table.bounds + i, op[start + 2 * field_words + 1 + i])
    store_action(state, table, number, op, start + 2 * field_words + 1 + table.bound_words, stop)
    position = _find_in_group(state, table, op, start, group)
    if position < 0:
        point_bucket(state, table, -1 - position, number)  # the free bucket, by `find_bucket`
    else:
        predecessor, successor = hint, bucket_record(state, table, position)
        if hint != 0:
            successor = _next_record(state, table, hint)
        while successor != 0 and state[record_at(table, successor) + table.rank] >= rank:
            predecessor, successor = successor, _next_record(state, table, successor)
            numbers[-1] += 1
        store_word(state, table, record + table.link, np.uint64(successor))
        _link_record(state, table, position, predecessor, number)
    _join_group(state, table, group, rank)
    return number


@compiled
def remove_ranked(state: Words, table: Row, number: int, hint: int, numbers: npt.NDArray[np.int64]) -> None:
    """Remove an entry; `hint` is another one before it in its chain, or 0 (`insert_ranked`)."""
    record = record_at(table, number)
    group = int64(state[record + table.field_words])
    position = find_bucket(state, table, state, record)
    predecessor, current = hint, bucket_record(state, table, position)
    if hint != 0:
        current = _next_record(state, table, hint)
    while current != number:
        predecessor, current = current, _next_record(state, table, current)
        numbers[-1] += 1
    _link_record(state, table, position, predecessor, _next_record(state, table, number))
    free_record(state, table, number)
    _leave_group(state, table, group)
