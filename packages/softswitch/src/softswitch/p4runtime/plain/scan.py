"""Scan a serialized `WriteRequest` for the positions of its updates' values (protobuf's wire format).

`scan` accepts only *plain* updates: of entries with exact matches and an action (a DELETE may omit the
action), whose encoding has each field once, in ascending order of field numbers. Other requests are left to
protobuf.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.memory import byte_at
from nativekit.records import Ints
from softswitch.native import entry_point

Bytes = npt.NDArray[np.uint8]
"""Bytes of a request. Functions below take their address, as numba's reference counting makes calls ten times
slower."""
CHANGE, TABLE, FIRST_MATCH, ACTION, FIRST_PARAM, END = range(6)
"""Columns of an update: update type, table ID, its first value, action ID, the first of its parameters, and
the first value of the next update. Without an action, the action ID is `NO_ACTION`."""
UPDATE_COLUMNS = 6
IDENTITY, START, LENGTH = range(3)
"""Columns of a value: ID of match field or parameter, offset and length of its bytes."""
VALUE_COLUMNS = 3
MIN_VALUE_BYTES = 6
"""Bytes of a parameter with an empty value: its tag and length, tag and ID, the value's tag and length."""
NO_ACTION = -1
_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5  # wire types
_TYPE_BITS, _TYPE_MASK = 3, 7  # of a tag, which is field number << 3 | wire type
_VARINT_1, _VARINT_2 = 0x08, 0x10  # tags by wire type and field number
_LEN_1, _LEN_2, _LEN_3, _LEN_4 = 0x0A, 0x12, 0x1A, 0x22
_UPDATES = 4  # number of the field `updates`
_UPDATES_TAG = _UPDATES << _TYPE_BITS | _LEN
_MORE_BYTES = 0x80  # bit of a varint's byte: whether another byte follows
_VALUE_BITS, _VALUE_MASK = 7, 0x7F  # of the value in a varint's byte
_MAX_VARINT_BYTES = 10
_MAX_U32_BYTES = 5  # of a varint below 2^32
_MAX_U32 = (1 << 32) - 1


@compiled
def _decode_varint(data: int, offset: int, stop: int) -> tuple[int, int]:
    """Return the value of a varint (-1 for 2^32 or more), and the next offset (-1 if there is no varint)."""
    if offset < stop and byte_at(data + offset) < _MORE_BYTES:  # the usual case
        return int64(byte_at(data + offset)), offset + 1
    value = int64(0)
    for i in range(_MAX_VARINT_BYTES):
        if offset + i >= stop:
            break
        byte = int64(byte_at(data + offset + i))
        if i < _MAX_U32_BYTES:
            value |= (byte & _VALUE_MASK) << (_VALUE_BITS * i)
        elif byte & _VALUE_MASK:
            value = _MAX_U32 + 1
        if byte < _MORE_BYTES:
            return (value if value <= _MAX_U32 else int64(-1)), offset + i + 1
    return int64(-1), int64(-1)


@compiled
def _decode_varint_field(data: int, offset: int, stop: int, tag: int) -> tuple[int, int]:
    """Return value and next offset of a varint field; offset -1 for another tag or no value below 2^32."""
    if offset >= stop or byte_at(data + offset) != tag:
        return int64(-1), int64(-1)
    value, offset = _decode_varint(data, offset + 1, stop)
    return (value, offset) if value >= 0 else (value, int64(-1))


@compiled
def _find_len_field(data: int, offset: int, stop: int, tag: int) -> tuple[int, int]:
    """Return start and end of the bytes of a field with this tag (wire type LEN), or -1 if there is none."""
    if offset >= stop or byte_at(data + offset) != tag:
        return int64(-1), int64(-1)
    length, offset = _decode_varint(data, offset + 1, stop)
    if offset < 0 or length < 0 or length > stop - offset:
        return int64(-1), int64(-1)
    return offset, offset + length


@compiled
def _find_last_len_field(data: int, offset: int, stop: int, tag: int) -> int:
    """Return the start of the bytes of a LEN field that ends its message, or -1 if there is none."""
    start, end = _find_len_field(data, offset, stop, tag)
    return start if end == stop else int64(-1)


# In the next docstrings, the number after a field's name is its field number.
@compiled
def _scan_match(data: int, offset: int, stop: int) -> tuple[int, int]:
    """Decode a FieldMatch, field_id 1, exact 2 { value 1 }: return ID and start of the value, or -1."""
    field_id, offset = _decode_varint_field(data, offset, stop, _VARINT_1)
    if offset >= 0:
        offset = _find_last_len_field(data, offset, stop, _LEN_2)
    return field_id, (_find_last_len_field(data, offset, stop, _LEN_1) if offset >= 0 else offset)


@compiled
def _scan_param(data: int, offset: int, stop: int) -> tuple[int, int]:
    """Decode an Action.Param, param_id 2, value 3: return ID and start of the value, or -1."""
    param_id, offset = _decode_varint_field(data, offset, stop, _VARINT_2)
    return param_id, (_find_last_len_field(data, offset, stop, _LEN_3) if offset >= 0 else offset)


@compiled
def _scan_update(
    data: int, offset: int, stop: int, updates: Ints, number: int, values: Ints, value_count: int
) -> int:
    """Decode an Update; return the number of values found so far, or -1 if it is not plain.

    Its form is type 1, entity 2 { table_entry 2 { table_id 1, match 2, action 3 { action 1 } } }.
    """
    updates[number, CHANGE], offset = _decode_varint_field(data, offset, stop, _VARINT_1)
    for _ in range(2):  # entity and table_entry
        if offset < 0:
            return -1
        offset = _find_last_len_field(data, offset, stop, _LEN_2)
    if offset < 0:
        return -1
    updates[number, TABLE], offset = _decode_varint_field(data, offset, stop, _VARINT_1)
    if offset < 0:
        return -1
    updates[number, FIRST_MATCH] = value_count
    while offset < stop and byte_at(data + offset) == _LEN_2:
        start, offset = _find_len_field(data, offset, stop, _LEN_2)
        identity, first = _scan_match(data, start, offset) if offset >= 0 else (offset, offset)
        if first < 0:
            return -1
        values[value_count, IDENTITY], values[value_count, START], values[value_count, LENGTH] = (
            identity,
            first,
            offset - first,
        )
        value_count += 1
    updates[number, ACTION], updates[number, FIRST_PARAM] = NO_ACTION, value_count
    if offset < stop:
        offset = _find_last_len_field(data, offset, stop, _LEN_3)
        if offset < 0:
            return -1
        offset = _find_last_len_field(data, offset, stop, _LEN_1)
        if offset < 0:
            return -1
        updates[number, ACTION], offset = _decode_varint_field(data, offset, stop, _VARINT_1)
        if offset < 0:
            return -1
        while offset < stop:
            start, offset = _find_len_field(data, offset, stop, _LEN_4)
            identity, first = _scan_param(data, start, offset) if offset >= 0 else (offset, offset)
            if first < 0:
                return -1
            values[value_count, IDENTITY], values[value_count, START], values[value_count, LENGTH] = (
                identity,
                first,
                offset - first,
            )
            value_count += 1
    updates[number, END] = value_count
    return value_count


@compiled
def _skip_field(data: int, offset: int, stop: int, wire_type: int) -> int:
    """Return the offset after a field of the request, or -1 if the field is malformed."""
    if wire_type == _VARINT:
        _, offset = _decode_varint(data, offset, stop)
        return offset
    if wire_type == _LEN:
        length, offset = _decode_varint(data, offset, stop)
        if offset < 0 or length < 0:
            return -1
        offset += length
    elif wire_type == _I64:
        offset += 8
    elif wire_type == _I32:
        offset += 4
    else:
        return -1
    return offset if offset <= stop else -1


@entry_point
def count_updates(data: Bytes) -> int:
    """Return the number of updates of a request, or -1 if the bytes are not a request."""
    offset, count, address, stop = int64(0), 0, data.ctypes.data, len(data)
    while offset < stop:
        tag, offset = _decode_varint(address, offset, stop)
        if offset < 0 or tag < 1 << _TYPE_BITS:  # no tag, one of 2^32 or more, or field number 0
            return -1
        if tag == _UPDATES_TAG:
            count += 1
        elif tag >> _TYPE_BITS == _UPDATES:
            return -1
        offset = _skip_field(address, offset, stop, tag & _TYPE_MASK)
        if offset < 0:
            return -1
    return count


@entry_point
def scan(data: Bytes, updates: Ints, values: Ints, head: Bytes) -> int:
    """Fill in the updates of a request that `count_updates` has counted, and their values.

    Copies the request's other fields to `head`; returns the bytes copied, or -1 if an update is not plain.
    """
    offset, number, value_count, head_length = int64(0), int64(0), int64(0), int64(0)
    address, stop = data.ctypes.data, len(data)
    while offset < stop:
        field_start = offset
        tag, offset = _decode_varint(address, offset, stop)
        content_start = offset
        offset = _skip_field(address, offset, stop, tag & _TYPE_MASK)
        if tag == _UPDATES_TAG:
            _, content_start = _decode_varint(address, content_start, stop)
            value_count = _scan_update(address, content_start, offset, updates, number, values, value_count)
            if value_count < 0:
                return -1
            number += 1
        else:
            memcpy(head.ctypes.data + head_length, address + field_start, offset - field_start)
            head_length += offset - field_start
    return head_length
