"""A packet of a dense vector in UDP: a chunk to be added, a chunk of the sum, or an acknowledgement.

Big-endian:

| offset | bytes | field | |
|---:|---:|---|---|
| 0 | 1 | kind | `ADDEND`, `RESULT` or `ACK` |
| 1 | 1 | form | of the values: 0 int32, 1 float32 (IEEE 754) |
| 2 | 1 | worker | from 0 on: the source of the addend, or the destination of the result |
| 3 | 1 | workers | number of workers whose vectors are added up |
| 4 | 2 | job | number of the job, at the same offset as in Hotline's RPC |
| 6 | 2 | size | values of a full chunk; only the last chunk of a vector, or of a part of it, has fewer |
| 8 | 4 | round | number of the all-reduce of the job, from 1 on |
| 12 | 4 | chunk | number of the chunk |
| 16 | 4 each | values | their number follows from the length of the datagram |
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from hotline_agents.datagram_view import view_as
from nativekit.bits import swap16, swap32
from nativekit.compile import compiled, int64, llvm_intrinsic
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values
from nativekit.records import Words, check_field_names

ADDEND, RESULT, ACK = 1, 2, 3
MIN_SIZE, MAX_SIZE = 64, 360
"""Values of a full chunk; the largest leaves room for IP and UDP in an MTU of 1,500 bytes."""
SIZE = 256  # default number of values of a full chunk
MAX_WORKERS = 32  # each has a bit of a word
HEADER = struct.Struct("!BBBBHHII")
VALUE_BYTES = 4
HEADER_BYTES = HEADER.size
_types: Module = types


class DensePacket(NamedTuple):  # the header's fields in their order, then the values
    kind: int
    is_float: int  # the header's `form`
    worker: int
    workers: int
    job: int
    size: int
    round: int
    chunk: int
    values: tuple[int, ...] = ()  # uint32 words, of either form

    def build(self) -> bytes:
        return HEADER.pack(*self[:-1]) + struct.pack(f"!{len(self.values)}I", *self.values)


def parse(datagram: bytes) -> DensePacket:
    count = (len(datagram) - HEADER.size) // VALUE_BYTES
    values = struct.unpack(f"!{max(count, 0)}I", datagram[HEADER.size :])
    return DensePacket._make((*HEADER.unpack_from(datagram), values))


class PacketRecord:
    kind: int
    form: int  # 0 for int32, 1 for float32
    worker: int
    workers: int
    job: int
    full_size: int  # number of values of a full chunk
    round_number: int  # number of the all-reduce
    chunk: int
    words: Words


PACKET = check_field_names(
    np.dtype(
        {
            "names": list(PacketRecord.__annotations__),
            "formats": ["u1", "u1", "u1", "u1", "u2", "u2", "u4", "u4", ("u4", (MAX_SIZE,))],
            "offsets": [0, 1, 2, 3, 4, 6, 8, 12, HEADER.size],
            "itemsize": BUFFER_BYTES,
        }
    )
)
"""Fields in network order. The format's `size` and `round` are renamed: arrays have attributes so named."""
as_packet = view_as(PacketRecord, PACKET)


def _add_floats_in_python(left: int, right: int) -> int:
    operands = np.array([left, right]).astype(np.uint32).view(np.float32)
    return int64((operands[:1] + operands[1:]).view(np.uint32)[0])


@llvm_intrinsic(_add_floats_in_python)
def add_floats(_typing: TypingContext, _left: Kind, _right: Kind) -> Generated:
    """Return the bits of the sum of two float32 numbers, which are given by their bits."""

    def code(_context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        floats = [builder.bitcast(builder.trunc(value, ir.IntType(32)), ir.FloatType()) for value in values]
        word = builder.bitcast(builder.fadd(*floats), ir.IntType(32))
        return builder.zext(word, ir.IntType(64))

    return _types.int64(_types.int64, _types.int64), code


@compiled
def add_words(left: int, right: int, is_float: int) -> int:
    return add_floats(left, right) if is_float else (left + right) & 0xFFFFFFFF


@compiled
def write_head(
    rpc: Rpc,
    kind: int,
    is_float: int,
    job: int,
    worker: int,
    workers: int,
    size: int,
    round_number: int,
    chunk: int,
) -> None:
    packet = as_packet(rpc)
    packet.kind, packet.form, packet.job = kind, is_float, swap16(job)
    packet.worker, packet.workers, packet.full_size = worker, workers, swap16(size)
    packet.round_number, packet.chunk = swap32(round_number), swap32(chunk)


@compiled
def value_count(length: int) -> int:
    """Return the number of values of a datagram of `length` bytes; -1 for an invalid length."""
    value_bytes = length - HEADER_BYTES
    if value_bytes < 0 or value_bytes % VALUE_BYTES or value_bytes > MAX_SIZE * VALUE_BYTES:
        return -1
    return value_bytes // VALUE_BYTES


@compiled
def is_valid(rpc: Rpc, length: int) -> bool:
    count, packet = value_count(length), as_packet(rpc)
    size = swap16(packet.full_size)
    return bool(
        0 <= count <= size
        and MIN_SIZE <= size <= MAX_SIZE
        and packet.form <= 1
        and 0 < packet.workers <= MAX_WORKERS
        and packet.worker < packet.workers
    )


@compiled
def rounds_between(number: int, last: int) -> int:
    """Return the signed difference `number` - `last` of two 32-bit round numbers, which wrap."""
    difference = (number - last) & 0xFFFFFFFF
    return difference - ((difference & 1 << 31) << 1)  # minus 2^32 if the sign bit is set


@compiled
def write_words(rpc: Rpc, words: Words, first: int, count: int) -> int:
    packet = as_packet(rpc)
    for i in range(count):
        packet.words[i] = swap32(int64(words[first + i]))
    return HEADER_BYTES + VALUE_BYTES * count


@compiled
def read_words(rpc: Rpc, words: Words, first: int, count: int) -> None:
    packet = as_packet(rpc)
    for i in range(count):
        words[first + i] = swap32(int64(packet.words[i]))


@compiled
def accumulate_words(rpc: Rpc, words: Words, first: int, count: int, is_float: int) -> None:
    packet = as_packet(rpc)
    for i in range(count):
        words[first + i] = add_words(int64(words[first + i]), swap32(int64(packet.words[i])), is_float)
