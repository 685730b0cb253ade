"""Encode the updates of a scanned request (`scan`) into operations of `softswitch.state.write`."""

from __future__ import annotations

import numpy as np

from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records
from softswitch.memory.rows import Words
from softswitch.native import entry_point
from softswitch.p4runtime.plain.scan import (
    ACTION,
    CHANGE,
    END,
    FIRST_MATCH,
    FIRST_PARAM,
    IDENTITY,
    LENGTH,
    START,
    TABLE,
    Bytes,
)
from softswitch.state.write import DELETE, INSERT, MODIFY, OP_HEADER_WORDS

WORD_BITS = 64


class FieldRow:
    """A match field or parameter of at most one word; `shift` is its lowest bit's position in the key."""

    id: int
    width: int
    shift: int


class ActionRow:
    id: int
    index: int
    first_field: int  # parameters: rows `first_field` to `end_field` - 1 of the fields
    end_field: int


class TableRow:
    id: int
    row: int  # number of the table in the pipeline (`memory.rows`)
    key_words: int
    first_field: int  # match fields: rows `first_field` to `end_field` - 1 of the fields
    end_field: int
    first_action: int  # actions: rows `first_action` to `end_action` - 1
    end_action: int


@compiled
def _find_row(rows: Records[TableRow] | Records[ActionRow], first: int, end: int, object_id: int) -> int:
    for row in range(first, end):
        if rows[row].id == object_id:
            return row
    return -1


@compiled
def _fits_field(data: Bytes, value: Ints, field: FieldRow) -> bool:
    if value[IDENTITY] != field.id or value[LENGTH] == 0:
        return False
    offset, length = value[START], value[LENGTH]
    while length > 1 and data[offset] == 0:
        offset, length = offset + 1, length - 1
    bits = (length - 1) * 8
    first_byte = data[offset]  # that is not a leading zero, unless the value is 0
    while first_byte:
        bits += 1
        first_byte >>= 1
    return bool(bits <= field.width)


@compiled
def _decode_number(data: Bytes, value: Ints) -> np.uint64:
    number = np.uint64(0)
    for offset in range(value[START], value[START] + value[LENGTH]):
        number = number << np.uint64(8) | np.uint64(data[offset])
    return number


@compiled
def _put_key(ops: Words, offset: int, number: np.uint64, shift: int) -> None:
    word, bit = offset + shift // WORD_BITS, np.uint64(shift % WORD_BITS)
    ops[word] |= number << bit
    # A field may end in the next word; a shift by all 64 bits would be undefined.
    if bit and number >> (np.uint64(WORD_BITS) - bit):
        ops[word + 1] |= number >> (np.uint64(WORD_BITS) - bit)


@entry_point
def encode(
    data: Bytes,
    updates: Ints,
    values: Ints,
    tables: Records[TableRow],
    actions: Records[ActionRow],
    fields: Records[FieldRow],
    ops: Words,
    starts: Ints,
) -> bool:
    """Fill in operations and their starts; return whether all updates are valid and of these tables."""
    offset, table_row = int64(0), 0
    for number in range(len(updates)):
        update = updates[number]
        if tables[table_row].id != update[TABLE]:
            table_row = _find_row(tables, int64(0), len(tables), update[TABLE])
            if table_row < 0:
                return False
        table = tables[table_row]
        change = update[CHANGE]
        if change != INSERT and change != MODIFY and change != DELETE:
            return False
        if update[FIRST_PARAM] - update[FIRST_MATCH] != table.end_field - table.first_field:
            return False
        starts[number] = offset
        ops[offset], ops[offset + 1] = change, table.row
        offset += OP_HEADER_WORDS
        ops[offset : offset + table.key_words] = 0
        for i in range(table.end_field - table.first_field):
            field, value = fields[table.first_field + i], values[update[FIRST_MATCH] + i]
            if not _fits_field(data, value, field):
                return False
            _put_key(ops, offset, _decode_number(data, value), field.shift)
        offset += table.key_words
        if change != DELETE:
            row = _find_row(actions, table.first_action, table.end_action, update[ACTION])
            if row < 0:
                return False
            action = actions[row]
            if update[END] - update[FIRST_PARAM] != action.end_field - action.first_field:
                return False
            ops[offset] = action.index
            offset += 1
            for i in range(action.end_field - action.first_field):
                field, value = fields[action.first_field + i], values[update[FIRST_PARAM] + i]
                if not _fits_field(data, value, field):
                    return False
                ops[offset] = _decode_number(data, value)
                offset += 1
    starts[len(updates)] = offset
    return True
