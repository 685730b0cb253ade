"""Entries of exact tables, in their places (`memory.places`), as compiled functions.

A record's number is its position, counted from 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir as llvm
from numba import types

from softswitch.llvmir import POINTER
from softswitch.memory.layout import ENTRIES
from softswitch.memory.places import PASSED, TAKEN, home_at_function, search_at_function
from softswitch.memory.rows import Row, Words
from softswitch.native import compiled, int64, intrinsic
from softswitch.state.records import ONE, address, fill, put, record_at

_TAKEN, _PASSED = np.uint64(TAKEN), np.uint64(PASSED)


@intrinsic
def _search_at(
    _typing: Any, records: Any, places: Any, stride: Any, action: Any, key: Any, key_words: Any
) -> Any:
    """`search_at` of `memory.places`; records and key by address."""

    def generate(_context: Any, b: llvm.IRBuilder, _signature: Any, values: Any) -> Any:
        records, places, stride, action, key, key_words = values
        first, wanted = (b.inttoptr(address, POINTER) for address in (records, key))
        return b.call(search_at_function(b.module), [first, places, stride, action, wanted, key_words])

    return types.intp(*[types.intp] * 6), generate


@intrinsic
def _home_at(_typing: Any, places: Any, key: Any, key_words: Any) -> Any:
    """`home_at` of `memory.places`; the key by address."""

    def generate(_context: Any, b: llvm.IRBuilder, _signature: Any, values: Any) -> Any:
        places, key, key_words = values
        return b.call(home_at_function(b.module), [places, b.inttoptr(key, POINTER), key_words])

    return types.intp(*[types.intp] * 3), generate


@compiled
def find_placed(state: Words, table: Row, key: Words, start: int) -> Any:
    """Number of the record of the key at `key[start:]`, or 0."""
    records, wanted = address(state, table.records), address(key, start)
    return 1 + _search_at(records, table.places, table.stride, table.action, wanted, table.key_words)


@compiled
def _home(table: Row, key: Words, start: int) -> Any:
    """Number of the place where the search for the key at `key[start:]` begins."""
    return 1 + _home_at(table.places, address(key, start), table.key_words)


@compiled
def _next(table: Row, number: int) -> Any:
    """Number of the place that a search looks at next."""
    return number + 1 if number < table.places else int64(1)


@compiled
def insert_placed(state: Words, table: Row, op: Words, start: int, stop: int) -> None:
    """Add an entry that is not there: key words, action, run-time data."""
    number = _home(table, op, start)
    at = record_at(table, number) + table.action
    while state[at] & _TAKEN != 0:
        put(state, table, at, state[at] + _PASSED)
        number = _next(table, number)
        at = record_at(table, number) + table.action
    record = record_at(table, number)
    for i in range(table.key_words):
        put(state, table, record + i, op[start + i])
    put(state, table, at, state[at] | _TAKEN)
    for i in range(table.action + 1, table.stride):
        put(state, table, record + i, 0)
    fill(state, table, number, op, start + table.key_words, stop)
    put(state, table, table.header + ENTRIES, state[table.header + ENTRIES] + ONE)


@compiled
def remove_placed(state: Words, table: Row, number: int) -> None:
    """Free an entry's place."""
    record = record_at(table, number)
    passed = _home(table, state, record)
    while passed != number:
        at = record_at(table, passed) + table.action
        put(state, table, at, state[at] - _PASSED)
        passed = _next(table, passed)
    at = record + table.action
    put(state, table, at, state[at] & ~_TAKEN)
    put(state, table, table.header + ENTRIES, state[table.header + ENTRIES] - ONE)
