"""Hash index and records of a table in the memory block (`memory.layout`), as compiled functions."""

from __future__ import annotations

import numpy as np
from llvmlite import ir as llvm
from numba import types

from nativekit.compile import carray, compiled, int64, intrinsic
from nativekit.llvm import Context, Generated, Kind, Signature, TypingContext, Value, Values
from nativekit.memory import pointer
from softswitch.llvmir import POINTER
from softswitch.memory.index import find_at_function, hash_at_function
from softswitch.memory.layout import ENTRIES, FREE, FREE_RECORD, USED
from softswitch.memory.rows import LOG_WORDS, Row, Words
from softswitch.memory.words import HALF, LOW_HALF_MASK, WORD_BYTES

_HALF = np.uint64(HALF)
_LOW = np.uint64(LOW_HALF_MASK)
_FREED = np.uint64(FREE_RECORD)
ONE = np.uint64(1)


@intrinsic
def _find_at(
    _typing: TypingContext, buckets: Kind, mask: Kind, records: Kind, stride: Kind, key: Kind, key_words: Kind
) -> Generated:
    """Call `find_at` of `memory.index`; buckets, records and key are addresses."""

    def code(_context: Context, b: llvm.IRBuilder, _signature: Signature, values: Values) -> Value:
        buckets, mask, records, stride, key, key_words = values
        buckets_at, records_at, key_at = (b.inttoptr(value, POINTER) for value in (buckets, records, key))
        return b.call(find_at_function(b.module), [buckets_at, mask, records_at, stride, key_at, key_words])

    return types.intp(*[types.intp] * 6), code


@intrinsic
def _hash_at(_typing: TypingContext, key: Kind, key_words: Kind) -> Generated:
    def code(_context: Context, b: llvm.IRBuilder, _signature: Signature, values: Values) -> Value:
        return b.call(hash_at_function(b.module), [b.inttoptr(values[0], POINTER), values[1]])

    return types.uint64(types.intp, types.intp), code


@compiled
def address(words: Words, offset: int) -> int:
    return words.ctypes.data + WORD_BYTES * offset


@compiled
def store_word(state: Words, table: Row, offset: int, value: int | np.integer) -> None:
    """Change a word, and append it with its old value to the table's log, if there is one (`memory.rows`)."""
    if table.log != 0:
        log = carray(pointer(table.log), LOG_WORDS, np.uint64)
        position = 1 + 2 * int64(log[0])
        log[position] = np.uint64(offset)
        log[position + 1] = state[offset]
        log[0] += ONE  # the number of changes
    state[offset] = value


@compiled
def hash_key(key: Words, start: int, key_words: int) -> np.uint64:
    value: np.uint64 = _hash_at(address(key, start), key_words)
    return value


@compiled
def record_at(table: Row, number: int) -> int:
    """Return the word offset of a record by its number, counted from 1."""
    return table.records + (number - 1) * table.stride


@compiled
def bucket_record(state: Words, table: Row, position: int) -> int:
    return int64(state[table.buckets + position] & _LOW)


@compiled
def point_bucket(state: Words, table: Row, position: int, number: int) -> None:
    tag = hash_key(state, record_at(table, number), table.key_words) >> _HALF
    store_word(state, table, table.buckets + position, (tag << _HALF) | np.uint64(number))


@compiled
def find_bucket(state: Words, table: Row, key: Words, start: int) -> int:
    """Return the bucket of the key at `key[start:]`, or -1 - b if it is missing and belongs in bucket b."""
    position: int = _find_at(
        address(state, table.buckets),
        table.mask,
        address(state, table.records),
        table.stride,
        address(key, start),
        table.key_words,
    )
    return position


@compiled
def empty_bucket(state: Words, table: Row, position: int) -> None:
    """Empty a bucket and move later ones back, so that probing needs no tombstones."""
    mask, buckets = table.mask, table.buckets
    gap = position
    probe = (position + 1) & mask
    while state[buckets + probe] != 0:
        record = record_at(table, bucket_record(state, table, probe))
        hash_position = int64(hash_key(state, record, table.key_words) & np.uint64(mask))
        if ((probe - hash_position) & mask) >= ((probe - gap) & mask):
            store_word(state, table, buckets + gap, state[buckets + probe])
            gap = probe
        probe = (probe + 1) & mask
    store_word(state, table, buckets + gap, 0)


# ---- records


@compiled
def take_record(state: Words, table: Row) -> int:
    """Allocate a record, zero it and count it as an entry; return its number."""
    header = table.header
    number = int64(state[header + FREE])
    if number != 0:
        store_word(state, table, header + FREE, state[record_at(table, number)])
    else:
        store_word(state, table, header + USED, state[header + USED] + ONE)
        number = int64(state[header + USED])
    store_word(state, table, header + ENTRIES, state[header + ENTRIES] + ONE)
    record = record_at(table, number)
    for i in range(table.stride):
        store_word(state, table, record + i, 0)
    return number


@compiled
def free_record(state: Words, table: Row, number: int) -> None:
    header = table.header
    store_word(state, table, record_at(table, number), state[header + FREE])
    store_word(state, table, record_at(table, number) + table.action, _FREED)
    store_word(state, table, header + FREE, np.uint64(number))
    store_word(state, table, header + ENTRIES, state[header + ENTRIES] - ONE)


@compiled
def store_action(state: Words, table: Row, number: int, op: Words, start: int, stop: int) -> None:
    """Store `op[start:stop]`: the action, then its run-time data."""
    # Counter, meter and last hit, which lie between them in the record, are unchanged.
    record = record_at(table, number)
    store_word(state, table, record + table.action, op[start])
    offset = record + table.parameters
    for i in range(start + 1, stop):
        store_word(state, table, offset + i - start - 1, op[i])
