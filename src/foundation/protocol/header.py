"""The RPC header, whose layout is derived from the fields of `Header`. All numbers are in network order.

After the header come `count` 64-bit keys if the flag KEYS is set, then `count` rows of `dim` 32-bit values if
VALUES is. A lane that is not live has the key `NO_KEY` and a row of zeros. docs/design.md has the table.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Annotated, NamedTuple, TypeAlias, get_type_hints

import numpy as np

from foundation.errors import MalformedDatagram

LANES = 32
"""Maximum number of lanes of an RPC: 8, 16, 32 or 64. The P4 program is compiled for the same number."""

VERSION = 4
"""Version 4 adds the field `dim`, so that lanes have rows. Version 3 adds SET, words of state and REPLAY. In
version 2 lanes may have keys outside the PS's share; the PS refuses them. In version 1 all keys are in it."""
HOTLINE_PORT = 5001
PS_RPC_PORT = 5002
PS_BITS = 10
"""Bits of the field `ps` with the number of a server. Those above have the index of a home, the switch with
the hot set that an RPC may use, if a server has hot sets in several switches."""
PS_MASK = (1 << PS_BITS) - 1
MAX_HOMES = 16
"""Maximum number of homes of a server. The numbers of callers below `CONTROLLER_CALLER` have room for 16
homes of each of 1,023 servers, which are more than runs have."""
PS_CALLER_BASE = 0x8000
"""A PS calls the switch as worker `PS_CALLER_BASE + ps`."""
COLLECTOR_BASE = 0xC000
"""A PS collects gradients from the switch as worker `COLLECTOR_BASE + ps`."""
CONTROLLER_CALLER = 0xFFFF  # worker of a CONTROL
NO_KEY = 2**64 - 1  # key of a lane that is not live

WINDOW_BITS = 6
WINDOW = 1 << WINDOW_BITS
"""Sequence-number slots of one caller: slot = seq mod WINDOW, turn = seq div WINDOW, first turn 1."""
SLOT_MASK = WINDOW - 1
MAX_EPOCHS = 64
"""Number of a worker's epochs that a PS remembers in a job: the largest, as a later epoch is larger.

RPCs of any smaller epoch are stale, so a late copy is never added, and a worker that invents epochs displaces
only its own. A worker asks about an unanswered push in a later epoch; it may lose its switch this often in
one operation.
"""

# Flags.
RESPONSE = 0x0001
KEYS = 0x0002
VALUES = 0x0004
SET = 0x0008
"""A push sets a parameter's value instead of adding to it or, with a flag of `STATE`, sets a word of its
optimiser's state. Setting the value resets that state."""
FIRST, SECOND = 0x0010, 0x0020
STATE = FIRST | SECOND
"""Flags of the two words of an optimiser's state: a pull or SET with one concerns the word, not the value."""
REPLAY = 0x0040
"""A push of updates that a lost switch had acknowledged; the server waits for the replays of all workers."""

KEY_BYTES = 8
VALUE_BYTES = 4
QUAD = 4
"""Values that a bank of the switch holds in a slot."""
MAX_VALUES = QUAD * LANES
"""Maximum number of values in an RPC."""
DIMS = (1, 4, 8, 16, 32, 64, 128)
"""Values of a row that an RPC may carry; all rows of an RPC have the same number."""


def lanes_of_dim(dim: int) -> int:
    """Return the maximum number of rows in an RPC, which is the number of lanes that they are hashed to."""
    return MAX_VALUES // max(dim, QUAD)


def padded_dim(dim: int) -> int:
    """Return the smallest dim that an RPC may carry for rows of `dim` values, at most `DIMS[-1]`."""
    return next(each for each in DIMS if each >= dim)


def lane_bytes(flags: int, dim: int) -> int:
    """Return the bytes of a lane in an RPC with these flags."""
    return KEY_BYTES * ((flags & KEYS) != 0) + VALUE_BYTES * dim * ((flags & VALUES) != 0)


class Op(IntEnum):
    PULL = 1
    PUSH = 2
    EMPTY = 3
    CONTROL = 4


_ONE_BIT_PER_LANE = 0  # stands for a field's bits, which depend on the lanes
U8: TypeAlias = Annotated[int, 8]
U16: TypeAlias = Annotated[int, 16]
U32: TypeAlias = Annotated[int, 32]
U64: TypeAlias = Annotated[int, 64]
Bitmap: TypeAlias = Annotated[int, _ONE_BIT_PER_LANE]


class Header(NamedTuple):
    """The header's fields in wire order, as in `rpc_t` (p4src/hotset/rpc.p4).

    `t0`, `ps_proc`, `ps_queue` are in ns, `residence` in µs.
    """

    version: U8 = VERSION
    op: U8 = Op.PULL
    flags: U16 = 0
    job: U16 = 0
    worker: U16 = 0
    epoch: U32 = 0
    ps: U16 = 0
    count: U8 = 0  # type: ignore[assignment]  # the name on the wire; also a method of tuple
    dim: U8 = 1
    seq: U32 = 0
    iteration: U32 = 0
    live: Bitmap = 0
    served: Bitmap = 0
    refused: Bitmap = 0
    t0: U64 = 0
    ps_proc: U32 = 0
    ps_queue: U32 = 0
    residence: U32 = 0


def bits_of_fields(lanes: int = LANES) -> dict[str, int]:
    """Return the bits of each field, in wire order, for a program of 8, 16, 32 or 64 lanes."""
    kinds = get_type_hints(Header, include_extras=True)
    return {name: kinds[name].__metadata__[0] or lanes for name in Header._fields}


def layout(lanes: int = LANES) -> struct.Struct:
    codes = {8: "B", 16: "H", 32: "I", 64: "Q"}
    return struct.Struct("!" + "".join(codes[bits] for bits in bits_of_fields(lanes).values()))


def dtype(lanes: int = LANES) -> np.dtype[np.void]:
    return np.dtype([(name, f">u{bits // 8}") for name, bits in bits_of_fields(lanes).items()])


def offset_of(field: str, lanes: int = LANES) -> int:
    fields = dtype(lanes).fields
    assert fields is not None
    return int(fields[field][1])


LAYOUT = layout()
HEADER_BYTES = LAYOUT.size
BITMAP_DTYPE = dtype()["live"].newbyteorder("<")
"""Type of a bitmap of lanes, as numpy's packbits (bitorder little) returns it."""

_SHAPES = {
    Op.PULL: (KEYS, KEYS | VALUES, RESPONSE | VALUES),
    Op.PUSH: (KEYS | VALUES, RESPONSE),
    Op.EMPTY: (0, RESPONSE),
}
SHAPES = frozenset((int(op), flags) for op, allowed in _SHAPES.items() for flags in allowed)
"""All allowed combinations of (op, flags) but CONTROL's and those of `WORD_SHAPES`."""
WORD_SHAPES = frozenset(
    {
        *((int(Op.PULL), KEYS | word) for word in (FIRST, SECOND)),
        *((int(Op.PUSH), KEYS | VALUES | kind) for kind in (SET, SET | FIRST, SET | SECOND, REPLAY)),
    }
)
"""(op, flags) of RPCs that servers with optimisers serve. Of these a switch serves only SET, and only for a
server that publishes a value."""
CONTROL_SHAPES = {(int(Op.CONTROL), flags) for flags in (0, RESPONSE)}

_NO_SHAPE, _RPC_SHAPE, _CONTROL_SHAPE = 0, 1, 2
# By op and flags, of which REPLAY is the highest.
_SHAPE_OF = np.full((max(Op) + 1, 2 * REPLAY), _NO_SHAPE, np.int64)
for _shape in SHAPES | WORD_SHAPES:
    _SHAPE_OF[_shape] = _RPC_SHAPE
for _shape in CONTROL_SHAPES:
    _SHAPE_OF[_shape] = _CONTROL_SHAPE
_EMPTY, _ALL_LANES = int(Op.EMPTY), (1 << LANES) - 1
_VERSION_FAULT, _OP_FAULT, _CONTROL_FAULT, _COUNT_FAULT = 1, 2, 3, 4
_LENGTH_FAULT, _BITMAP_FAULT, _EMPTY_FAULT, _DIM_FAULT = 5, 6, 7, 8


def first_fault(h: Header, length: int) -> int:
    """Return the number of the first rule that the header of a datagram of `length` bytes breaks, or 0.

    Of a CONTROL, only the header is checked: `control.py` checks the rest. Agents compile this function
    (`rpc.py`).
    """
    if h.version != VERSION:
        return _VERSION_FAULT
    is_known = h.op < _SHAPE_OF.shape[0] and h.flags < _SHAPE_OF.shape[1]
    shape = int(_SHAPE_OF[h.op, h.flags]) if is_known else _NO_SHAPE
    if shape == _NO_SHAPE:
        return _OP_FAULT
    if shape == _CONTROL_SHAPE:
        return _CONTROL_FAULT if h.count or h.live else 0
    if (h.dim != 1 and h.dim < QUAD) or h.dim & (h.dim - 1):
        return _DIM_FAULT
    if h.count > LANES or h.count * h.dim > MAX_VALUES:
        return _COUNT_FAULT
    key_bytes, row_bytes = (
        KEY_BYTES * ((h.flags & KEYS) != 0),
        VALUE_BYTES * h.dim * ((h.flags & VALUES) != 0),
    )
    if length != HEADER_BYTES + h.count * (key_bytes + row_bytes):
        return _LENGTH_FAULT
    refusable = h.live & ~h.served if h.flags & RESPONSE else 0
    if h.op == _EMPTY and h.flags & RESPONSE:  # `refused` is about the lanes of an earlier push
        refusable = _ALL_LANES
    # Live lanes are below `count`, served ones are live, and refused ones are refusable.
    if h.live >> h.count or h.served & ~h.live or h.refused & ~refusable:
        return _BITMAP_FAULT
    if (h.op == _EMPTY) != (h.live == 0) or (h.op == _EMPTY and h.count):
        return _EMPTY_FAULT
    return 0


_FAULT_MESSAGES = {
    _VERSION_FAULT: "version is {h.version}, not {VERSION}",
    _OP_FAULT: "op {h.op} with flags {h.flags:#06x} is no RPC",
    _CONTROL_FAULT: "expected a CONTROL without lanes, got count {h.count} and live {h.live:#x}",
    _DIM_FAULT: "dim is {h.dim}, not {dims}",
    _COUNT_FAULT: "count is {h.count} at dim {h.dim}, not 0..{most}",
    _LENGTH_FAULT: "{length} bytes, not {expected_length} for {h.count} lanes",
    _BITMAP_FAULT: "bitmaps disagree: count {h.count}, live {h.live:#x}, served {h.served:#x}, "
    "refused {h.refused:#x}",
    _EMPTY_FAULT: "op {h.op} with count {h.count} and live {h.live:#x}",
}


def check(header: Header, length: int) -> None:
    if fault := first_fault(header, length):
        message = _FAULT_MESSAGES[fault].format(
            h=header,
            length=length,
            expected_length=HEADER_BYTES + header.count * lane_bytes(header.flags, header.dim),
            VERSION=VERSION,
            dims=", ".join(map(str, DIMS)),
            most=lanes_of_dim(header.dim) if header.dim in DIMS else 0,
        )
        raise MalformedDatagram(message)


def unpack(datagram: bytes | memoryview) -> Header:
    if len(datagram) < HEADER_BYTES:
        raise MalformedDatagram(f"{len(datagram)} bytes, less than the header's {HEADER_BYTES}")
    header = Header._make(LAYOUT.unpack_from(datagram))
    check(header, len(datagram))
    return header
