"""Read and write packets in their buffers, in compiled code. Values are words of int32 or float32."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from hosts.datagram_view import view_as
from hotline_allreduce.dense.packet import HEADER, MAX_SIZE, MAX_WORKERS, MIN_SIZE, VALUE_BYTES
from nativekit.bits import swap16, swap32
from nativekit.compile import compiled, int64, llvm_intrinsic
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values
from nativekit.records import Words, check_field_names

HEADER_BYTES = HEADER.size
_types: Module = types


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
