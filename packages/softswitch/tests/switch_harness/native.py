"""Small pipelines in machine code for tests of the ports."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
from numba import cfunc, njit

from nativekit.compile import carray, compiled, int64
from nativekit.libc import memcpy
from nativekit.memory import pointer
from softswitch.memory.output import HEAD, HEAD_BYTES, WAITING, record_bytes
from softswitch.memory.process import DEPARTURE_PORT
from softswitch.memory.waiting import QUEUE_HEAD, QUEUE_HEAD_BYTES
from softswitch.native import PROCESS_SIGNATURE
from softswitch.v1model import PORT_NUMBERS

_FAN_OUT = 4
_STAMP = struct.Struct("=QQ")


F = TypeVar("F", bound=Callable[..., Any])


def uncached(function: F) -> F:
    """Compile an entry point without the cache on disk, which must not refer to a test's classes."""
    return cast(F, njit(nogil=True, error_model="numpy")(function))


_record_bytes = compiled(record_bytes)


@compiled
def _put_head(out: int, kind: int, length: int) -> None:
    head = carray(pointer(out), 1, HEAD)[0]
    head.kind, head.length = kind, length


def _wire(
    state: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
) -> int:
    outputs = carray(pointer(state), (PORT_NUMBERS, _FAN_OUT), np.int64)[port]
    count, used = 0, 0
    for output in outputs:
        if output >= 0:
            _put_head(out + used, output, length)
            memcpy(out + used + HEAD_BYTES, frame, int64(length))
            used += _record_bytes(int64(length))
            count += 1
    return count


def _stamp(
    state: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
) -> int:
    _put_head(out, port, 16)
    times = carray(pointer(out + HEAD_BYTES), 2, np.uint64)
    times[0], times[1] = t_in, now
    return 1


def _address(
    state: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
) -> int:
    named = carray(pointer(frame), 2, np.uint8)
    _put_head(out, int64(named[0]) << 8 | int64(named[1]), length)
    memcpy(out + HEAD_BYTES, frame, int64(length))
    return 1


def _double(
    state: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
) -> int:
    if port == DEPARTURE_PORT:
        return 0
    _put_head(out, WAITING, QUEUE_HEAD_BYTES + 2 * int64(length))
    queue = carray(pointer(out + HEAD_BYTES), 1, QUEUE_HEAD)[0]
    queue.port, queue.priority, queue.length = port, 0, length
    return 1


@cache
def _in_machine_code(process: Callable[..., int]) -> Any:
    """Compile at the first use, because collecting tests imports this module."""
    return cfunc(PROCESS_SIGNATURE)(process)


class _Native:
    queue_record_bytes = 0

    def __init__(self, process: Callable[..., int], state_address: int) -> None:
        self.process_address = _in_machine_code(process).address
        self.state_address = state_address
        self.lock = ctypes.create_string_buffer(64)  # all zeros: PTHREAD_MUTEX_INITIALIZER
        self.waiting = ctypes.c_uint32(0)
        self.mutex_address = ctypes.addressof(self.lock)
        self.waiting_address = ctypes.addressof(self.waiting)


class Wires(_Native):
    """Sends every frame on unchanged, from each port to the given ones (up to four)."""

    def __init__(self, wires: Mapping[int, Sequence[int]]) -> None:
        self._table = np.full((PORT_NUMBERS, _FAN_OUT), -1, np.int64)
        for port, outputs in wires.items():
            self._table[port, : len(outputs)] = outputs
        super().__init__(_wire, self._table.ctypes.data)


class Addressed(_Native):
    """Sends every frame on unchanged, to the port that its first two bytes name."""

    def __init__(self) -> None:
        super().__init__(_address, 0)


class Stamps(_Native):
    """Answers every frame with its `t_in` and `now`, 8 bytes each (see `read_stamp`)."""

    def __init__(self) -> None:
        super().__init__(_stamp, 0)


class Doubles(_Native):
    """Queues twice the bytes of each frame for the port that it came from, and swallows what departs."""

    queue_record_bytes = QUEUE_HEAD_BYTES

    def __init__(self) -> None:
        super().__init__(_double, 0)


def read_stamp(answer: bytes) -> tuple[int, int]:
    t_in, now = _STAMP.unpack(answer[: _STAMP.size])
    return t_in, now
