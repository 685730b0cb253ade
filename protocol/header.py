"""Constants and layout of the RPC header (docs/design.md has the table). Network order.

What follows the header: `count` 64-bit keys if the flag KEYS is set, then `count` 32-bit values if VALUES is.
A lane that is not live holds `NO_KEY` and the value 0.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from protocol.errors import MalformedDatagram

LANES = 32
"""Lanes of one RPC: 8, 16, 32 or 64. The P4 program is compiled for the same number."""

VERSION = 2
"""2: lanes may have keys of other shares than the PS's, which it refuses. 1: all keys are of its share."""
HOTLINE_PORT = 5001
PS_RPC_PORT = 5002
"""UDP port of a PS's own register RPCs."""
PS_CALLER_BASE = 0x8000
"""A PS calls the switch as worker `PS_CALLER_BASE + ps`."""
CONTROLLER_CALLER = 0xFFFF
"""The controller's worker id."""
NO_KEY = 2**64 - 1
MODULUS = 2**32
"""Values are 32-bit fixed point; additions wrap."""

WINDOW_BITS = 6
WINDOW = 1 << WINDOW_BITS
"""Sequence-number slots of one caller: slot = seq mod WINDOW, turn = seq div WINDOW, first turn 1."""
SLOT_MASK = WINDOW - 1

RESPONSE = 0x0001
KEYS = 0x0002
VALUES = 0x0004

KEY_BYTES = 8
VALUE_BYTES = 4


class Op(IntEnum):
    """What an RPC asks for."""

    PULL = 1
    PUSH = 2
    EMPTY = 3
    CONTROL = 4


class Header(NamedTuple):
    """The header's fields in wire order. `t0`, `ps_proc`, `ps_queue` in ns, `residence` in µs."""

    version: int = VERSION
    op: int = Op.PULL
    flags: int = 0
    job: int = 0
    worker: int = 0
    epoch: int = 0
    ps: int = 0
    count: int = 0  # type: ignore[assignment]  # the wire's name, though tuple has a method of it
    reserved: int = 0
    seq: int = 0
    iteration: int = 0
    live: int = 0
    served: int = 0
    refused: int = 0
    t0: int = 0
    ps_proc: int = 0
    ps_queue: int = 0
    residence: int = 0


_WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}


def layout(lanes: int) -> struct.Struct:
    """The header in a program of 8, 16, 32 or 64 lanes."""
    bitmap = {8: "B", 16: "H", 32: "I", 64: "Q"}[lanes]
    return struct.Struct(f"!BBHHHIHBBII{bitmap * 3}QIII")


LAYOUT = layout(LANES)
HEADER_BYTES = LAYOUT.size
HEADER_DTYPE = np.dtype(
    [(name, f">u{_WIDTHS[code]}") for name, code in zip(Header._fields, LAYOUT.format[1:], strict=True)]
)
BITMAP_DTYPE = HEADER_DTYPE["live"].newbyteorder("<")
"""A bitmap of lanes as numpy's packbits (bitorder little) makes it."""


def offset_of(field: str) -> int:
    """Byte offset of a header field."""
    fields = HEADER_DTYPE.fields
    assert fields is not None
    return int(fields[field][1])


ECHOED = slice(offset_of("job"), offset_of("served"))
"""Bytes that an answer repeats from its request: job, worker, epoch, ps, count, seq, iteration, live."""

MAX_DATAGRAM = HEADER_BYTES + LANES * (KEY_BYTES + VALUE_BYTES)

_REQUEST_SHAPES = {Op.PULL: {KEYS, KEYS | VALUES}, Op.PUSH: {KEYS | VALUES}, Op.EMPTY: {0}}
_ANSWER_SHAPES = {Op.PULL: {RESPONSE | VALUES}, Op.PUSH: {RESPONSE}, Op.EMPTY: {RESPONSE}}
_CONTROL_SHAPES = {Op.CONTROL: {0, RESPONSE}}


def _lane_bytes(flags: int) -> int:
    return (KEY_BYTES if flags & KEYS else 0) + (VALUE_BYTES if flags & VALUES else 0)


SHAPES: dict[tuple[int, int], int] = {
    (int(op), flags): _lane_bytes(flags)
    for shapes in (_REQUEST_SHAPES, _ANSWER_SHAPES)
    for op, allowed in shapes.items()
    for flags in allowed
}
"""Bytes a lane takes in each shape, by (op, flags), of every RPC but CONTROL."""

CONTROL_SHAPES = {(int(op), flags) for op, allowed in _CONTROL_SHAPES.items() for flags in allowed}


def check(header: Header, length: int) -> None:
    """Check shape and length of a datagram of `length` bytes; raises `MalformedDatagram`.

    For CONTROL it checks the header alone: what follows is protocol/control.py's.
    """
    (version, op, flags, _, _, _, _, count, reserved, _, _, live, served, refused, _, _, _, _) = header
    if version != VERSION:
        raise MalformedDatagram(f"version is {version}, not {VERSION}")
    lane_bytes = SHAPES.get((op, flags))
    if lane_bytes is None:
        if (op, flags) not in CONTROL_SHAPES:
            raise MalformedDatagram(f"op {op} with flags {flags:#06x} is no RPC")
        if count or live:
            raise MalformedDatagram(f"a CONTROL has no lanes, this has count {count} and live {live:#x}")
        return
    if count > LANES or reserved:
        raise MalformedDatagram(f"count is {count} and reserved {reserved}, not 0..{LANES} and 0")
    if length != HEADER_BYTES + count * lane_bytes:
        raise MalformedDatagram(f"{length} bytes, not {HEADER_BYTES + count * lane_bytes} for {count} lanes")
    may_refuse = live & ~served if flags & RESPONSE else 0
    if op == Op.EMPTY and flags & RESPONSE:  # of the push that was asked about
        may_refuse = (1 << LANES) - 1
    if live >> count or served & ~live or refused & ~may_refuse:
        raise MalformedDatagram(
            f"bitmaps disagree: count {count}, live {live:#x}, served {served:#x}, refused {refused:#x}"
        )
    if (op == Op.EMPTY) != (live == 0) or (op == Op.EMPTY and count):
        raise MalformedDatagram(f"op {op} with count {count} and live {live:#x}")


def unpack(datagram: bytes | memoryview) -> Header:
    """The header of a datagram, checked; raises `MalformedDatagram`."""
    if len(datagram) < HEADER_BYTES:
        raise MalformedDatagram(f"{len(datagram)} bytes, less than the header's {HEADER_BYTES}")
    header = Header._make(LAYOUT.unpack_from(datagram))
    check(header, len(datagram))
    return header
