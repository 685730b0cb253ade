"""The bytes of a `WriteRequest`: where its updates have their values (protobuf's wire format).

`scan` accepts only updates of entries with exact matches and an action (a DELETE may omit the action), whose
encoding has each field once, in ascending order of field numbers. Other requests are left to protobuf.
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
VALUE_BYTES = 6
"""Minimum bytes of a value in a request."""
NO_ACTION = -1
_UPDATES = 4
_UPDATES_TAG = _UPDATES << 3 | 2
_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5  # wire types
_MAX_U32 = (1 << 32) - 1


@compiled
def _varint(data: int, at: int, stop: int) -> tuple[int, int]:
    """Decode a varint: return its value, -1 from 2^32 on, and the next offset, -1 if there is no varint."""
    if at < stop and byte_at(data + at) < 0x80:  # the usual case
        return int64(byte_at(data + at)), at + 1
    value = int64(0)
    for i in range(10):
        if at + i >= stop:
            break
        byte = int64(byte_at(data + at + i))
        if i < 5:
            value |= (byte & 0x7F) << (7 * i)
        elif byte & 0x7F:
            value = _MAX_U32 + 1
        if byte < 0x80:
            return (value if value <= _MAX_U32 else int64(-1)), at + i + 1
    return int64(-1), int64(-1)


@compiled
def _varint_field(data: int, at: int, stop: int, tag: int) -> tuple[int, int]:
    """Return value and next offset of a varint field; offset -1 for another tag or no value below 2^32."""
    if at >= stop or byte_at(data + at) != tag:
        return int64(-1), int64(-1)
    value, at = _varint(data, at + 1, stop)
    return (value, at) if value >= 0 else (value, int64(-1))


@compiled
def _len_field(data: int, at: int, stop: int, tag: int) -> tuple[int, int]:
    """Return start and end of the bytes of a field with this tag (wire type LEN), or -1 if there is none."""
    if at >= stop or byte_at(data + at) != tag:
        return int64(-1), int64(-1)
    length, at = _varint(data, at + 1, stop)
    if at < 0 or length < 0 or length > stop - at:
        return int64(-1), int64(-1)
    return at, at + length


@compiled
def _last_len_field(data: int, at: int, stop: int, tag: int) -> int:
    """Return the start of the bytes of a LEN field that ends its message, or -1 if there is none."""
    start, end = _len_field(data, at, stop, tag)
    return start if end == stop else int64(-1)


@compiled
def _match(data: int, at: int, stop: int) -> tuple[int, int]:
    """Decode a FieldMatch, field_id 1, exact 2 { value 1 }: return ID and start of the value, or -1."""
    identity, at = _varint_field(data, at, stop, 0x08)
    if at >= 0:
        at = _last_len_field(data, at, stop, 0x12)
    return identity, (_last_len_field(data, at, stop, 0x0A) if at >= 0 else at)


@compiled
def _param(data: int, at: int, stop: int) -> tuple[int, int]:
    """Decode an Action.Param, param_id 2, value 3: return ID and start of the value, or -1."""
    identity, at = _varint_field(data, at, stop, 0x10)
    return identity, (_last_len_field(data, at, stop, 0x1A) if at >= 0 else at)


@compiled
def _update(data: int, at: int, stop: int, updates: Ints, number: int, values: Ints, used: int) -> int:
    """Decode an Update, and return the number of values in use after it, or -1.

    Its form is type 1, entity 2 { table_entry 2 { table_id 1, match 2, action 3 { action 1 } } }.
    """
    updates[number, CHANGE], at = _varint_field(data, at, stop, 0x08)
    for _ in range(2):
        if at < 0:
            return -1
        at = _last_len_field(data, at, stop, 0x12)
    if at < 0:
        return -1
    updates[number, TABLE], at = _varint_field(data, at, stop, 0x08)
    if at < 0:
        return -1
    updates[number, FIRST_MATCH] = used
    while at < stop and byte_at(data + at) == 0x12:
        start, at = _len_field(data, at, stop, 0x12)
        identity, first = _match(data, start, at) if at >= 0 else (at, at)
        if first < 0:
            return -1
        values[used, IDENTITY], values[used, START], values[used, LENGTH] = identity, first, at - first
        used += 1
    updates[number, ACTION], updates[number, FIRST_PARAM] = NO_ACTION, used
    if at < stop:
        at = _last_len_field(data, at, stop, 0x1A)
        if at < 0:
            return -1
        at = _last_len_field(data, at, stop, 0x0A)
        if at < 0:
            return -1
        updates[number, ACTION], at = _varint_field(data, at, stop, 0x08)
        if at < 0:
            return -1
        while at < stop:
            start, at = _len_field(data, at, stop, 0x22)
            identity, first = _param(data, start, at) if at >= 0 else (at, at)
            if first < 0:
                return -1
            values[used, IDENTITY], values[used, START], values[used, LENGTH] = identity, first, at - first
            used += 1
    updates[number, END] = used
    return used


@compiled
def _skip(data: int, at: int, stop: int, wire: int) -> int:
    """Return the offset after a field of the request that is no update, or -1 if it is malformed."""
    if wire == _VARINT:
        _, at = _varint(data, at, stop)
        return at
    if wire == _LEN:
        length, at = _varint(data, at, stop)
        if at < 0 or length < 0:
            return -1
        at += length
    elif wire == _I64:
        at += 8
    elif wire == _I32:
        at += 4
    else:
        return -1
    return at if at <= stop else -1


@entry_point
def count_updates(data: Bytes) -> int:
    """Return the number of updates of a request, or -1 if the bytes are no request."""
    at, found, address, stop = int64(0), 0, data.ctypes.data, len(data)
    while at < stop:
        tag, at = _varint(address, at, stop)
        if at < 0 or tag < 8:
            return -1
        if tag == _UPDATES_TAG:
            found += 1
        elif tag >> 3 == _UPDATES:
            return -1
        at = _skip(address, at, stop, tag & 7)
        if at < 0:
            return -1
    return found


@entry_point
def scan(data: Bytes, updates: Ints, values: Ints, head: Bytes) -> int:
    """Fill in the updates of a request that `count_updates` has counted, and their values.

    Copies the request's other fields to `head`; returns the bytes copied, or -1 if an update is not plain.
    """
    at, number, used, size = int64(0), int64(0), int64(0), int64(0)
    address, stop = data.ctypes.data, len(data)
    while at < stop:
        begin = at
        tag, at = _varint(address, at, stop)
        start = at
        at = _skip(address, at, stop, tag & 7)
        if tag == _UPDATES_TAG:
            _, start = _varint(address, start, stop)
            used = _update(address, start, at, updates, number, values, used)
            if used < 0:
                return -1
            number += 1
        else:
            memcpy(head.ctypes.data + size, address + begin, at - begin)
            size += at - begin
    return size
