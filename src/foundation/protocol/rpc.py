"""A record view of a buffer with a datagram in network order, for compiled code.

`header.py` defines the fields, their offsets and the rules. A bitmap is a signed 64-bit integer here, so an
RPC has up to 32 lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import MAX_U32
from foundation.protocol.hashing import LANE_SHIFT, MULTIPLIER, PS_SHIFT
from foundation.protocol.header import (
    HEADER_BYTES,
    KEY_BYTES,
    LANES,
    LAYOUT,
    MAX_VALUES,
    NO_KEY,
    Header,
    Op,
    bits_of_fields,
    dtype,
    first_fault,
    offset_of,
)
from nativekit.compile import compiled, int64, llvm_intrinsic
from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Context, Generated, Kind, Module, Signature, TypingContext, Value, Values
from nativekit.records import Records, Words, check_field_names, records

if HAS_NUMBA:  # generators of LLVM IR alone use these
    from llvmlite import ir
    from numba import types

    _types: Module = types  # for type checkers, which do not know all names in it

_WORD_BYTES = 4
assert LANES <= 32, "a bitmap is a signed integer of 64 bits, and stays positive"
assert HEADER_BYTES % _WORD_BYTES == 0, "the header is copied word by word"
_HEADER_WORDS = HEADER_BYTES // _WORD_BYTES
_KEY_WORDS = KEY_BYTES // _WORD_BYTES
PULL, PUSH, EMPTY, CONTROL = int(Op.PULL), int(Op.PUSH), int(Op.EMPTY), int(Op.CONTROL)
NO_KEY_U64 = np.uint64(NO_KEY)
ALL_LANES = 2**32 - 1  # bitmap; an RPC of the agents has at most 32 lanes
BUFFER_BYTES = 2048  # more than the longest datagram

_BITS, _DTYPE = bits_of_fields(), dtype()
_RECORD_FIELDS = [
    *(
        (name.replace("flags", "flag_bits"), _DTYPE[name].newbyteorder("<"), offset_of(name))
        for name in _BITS
    ),
    ("head", ("u4", (_HEADER_WORDS,)), 0),
    ("keys", ("u8", (LANES,)), HEADER_BYTES),
    ("words", ("u4", (_KEY_WORDS * LANES + MAX_VALUES,)), HEADER_BYTES),
]
RPC = check_field_names(
    np.dtype(
        {
            "names": [name for name, _, _ in _RECORD_FIELDS],
            "formats": [kind for _, kind, _ in _RECORD_FIELDS],
            "offsets": [offset for _, _, offset in _RECORD_FIELDS],
            "itemsize": BUFFER_BYTES,
        }
    )
)
"""Record type of a datagram. Values begin at word 2 * count if there are keys, else at word 0. (`flags` is an
attribute of numpy's records.)"""


class Rpc:
    """An `RPC` record: a datagram in its buffer, in network order."""

    version: int
    op: int
    flag_bits: int
    job: int
    worker: int
    epoch: int
    ps: int
    count: int
    dim: int
    seq: int
    iteration: int
    live: int
    served: int
    refused: int
    t0: int
    ps_proc: int
    ps_queue: int
    residence: int
    head: Words
    keys: NDArray[np.uint64]
    words: Words

    if TYPE_CHECKING:

        def tobytes(self) -> bytes: ...


assert tuple(Rpc.__annotations__) == RPC.names
Key: TypeAlias = np.uint64
"""A parameter's key in this machine's byte order."""
_MULTIPLIER, _LANE_SHIFT = np.uint64(MULTIPLIER), np.uint64(LANE_SHIFT)
_first_fault = compiled(first_fault)


def rpcs(n: int) -> Records[Rpc]:
    buffers: Records[Rpc] = records(n, RPC)
    return buffers


class Request(NamedTuple):
    op: int
    flags: int
    job: int
    worker: int
    epoch: int
    ps: int
    count: int  # type: ignore[assignment]  # as in `Header`
    dim: int
    seq: int
    iteration: int
    live: int
    t0: int


def _decode_plain(rpc: Rpc) -> Header:
    return Header._make(np.int64(field) for field in rpc.head.view(_DTYPE)[0])


@llvm_intrinsic(_decode_plain)
def decode(_typing: TypingContext, rpc: Kind) -> Generated:
    """Decode the header: all fields become signed 64-bit integers in this machine's byte order."""
    header = _types.NamedUniTuple(types.int64, len(Header._fields), Header)

    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        loaded = (builder.load(_field_pointer(builder, values[0], name), align=1) for name in Header._fields)
        fields = [builder.zext(_swap_bytes(builder, word), ir.IntType(64)) for word in loaded]
        return context.make_tuple(builder, header, fields)

    return header(rpc), code


def _encode_plain(rpc: Rpc, request: Request) -> None:
    fields = {name: int(field) & (1 << _BITS[name]) - 1 for name, field in request._asdict().items()}
    rpc.head[:] = np.frombuffer(LAYOUT.pack(*Header(**fields)), np.uint32)


@llvm_intrinsic(_encode_plain)
def encode(_typing: TypingContext, rpc: Kind, request: Kind) -> Generated:
    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        for name, default in Header._field_defaults.items():
            pointer = _field_pointer(builder, values[0], name)
            word = pointer.type.pointee(int(default))
            if name in request.fields:
                position = request.fields.index(name)
                field = builder.extract_value(values[1], position)
                field = context.cast(builder, field, request.types[position], types.int64)
                word = builder.trunc(field, pointer.type.pointee)
            builder.store(_swap_bytes(builder, word), pointer, align=1)
        return context.get_dummy_value()

    return types.none(rpc, request), code


def _field_pointer(builder: ir.IRBuilder, rpc: Value, field: str) -> Value:
    octets = builder.bitcast(rpc, ir.IntType(8).as_pointer())
    address = builder.gep(octets, [ir.IntType(64)(offset_of(field))])
    return builder.bitcast(address, ir.IntType(_BITS[field]).as_pointer())


def _swap_bytes(builder: ir.IRBuilder, word: Value) -> Value:
    return word if word.type.width == 8 else builder.bswap(word)


@compiled
def echo(answer: Rpc, rpc: Rpc) -> None:
    # Copy the header only; the answer has lanes of its own.
    for k in range(_HEADER_WORDS):
        answer.head[k] = rpc.head[k]


@compiled
def is_well_formed(h: Header, length: int) -> bool:
    return _first_fault(h, length) == 0


@compiled
def hash_of(key: Key) -> Key:
    return key * _MULTIPLIER


@compiled
def ps_of(key: Key, n_ps: int) -> int:
    middle = int64(hash_of(key) >> np.uint64(PS_SHIFT)) & MAX_U32
    return middle * n_ps >> 32


@compiled
def lane_of(key: Key) -> int:
    return int64(hash_of(key) >> _LANE_SHIFT)
