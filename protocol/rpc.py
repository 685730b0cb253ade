"""A datagram in its buffer, for compiled code: a record over it, in network order.

The rules are header.py's; tests hold the two against each other. A bitmap is a signed 64-bit integer here, so
an RPC has up to 32 lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from native.compile import compiled, int64
from native.records import checked, records
from native.words import swap16, swap32, swap64
from protocol.hashing import LANE_SHIFT, MULTIPLIER
from protocol.header import (
    HEADER_BYTES,
    HEADER_DTYPE,
    LANES,
    NO_KEY,
    RESPONSE,
    SHAPES,
    VERSION,
    Header,
    Op,
    offset_of,
)

assert LANES <= 32
PULL, PUSH, EMPTY, CONTROL = int(Op.PULL), int(Op.PUSH), int(Op.EMPTY), int(Op.CONTROL)
NOBODY = np.uint64(NO_KEY)
"""The key of a lane that is not live."""
ALL = 2**32 - 1
BUFFER_BYTES = 2048
Rpc = Any
"""An `RPC` record."""

_FIELDS = [
    (name.replace("flags", "flag_bits"), HEADER_DTYPE[name].newbyteorder("<"), offset_of(name))
    for name in Header._fields
]
RPC = checked(
    np.dtype(
        {
            "names": [*(name for name, _, _ in _FIELDS), "keys", "words"],
            "formats": [*(kind for _, kind, _ in _FIELDS), ("u8", (LANES,)), ("u4", (3 * LANES,))],
            "offsets": [*(offset for _, _, offset in _FIELDS), HEADER_BYTES, HEADER_BYTES],
            "itemsize": BUFFER_BYTES,
        }
    )
)
"""A datagram; values begin at word 2 * count behind keys, else at word 0. (numpy's records have `flags`.)"""

_LANE_BYTES = np.full((max(Op) + 1, 8), -1, np.int64)
for (_op, _flags), _bytes in SHAPES.items():
    _LANE_BYTES[_op, _flags] = _bytes
_HASH, _LANE_BITS = np.uint64(MULTIPLIER), np.uint64(LANE_SHIFT)


def rpcs(n: int) -> Any:
    """n empty buffers."""
    return records(n, RPC)


@compiled
def decode(rpc: Rpc) -> Header:
    """The header in this machine's order, all fields signed 64-bit."""
    return Header(
        int64(rpc.version), int64(rpc.op), swap16(rpc.flag_bits), swap16(rpc.job), swap16(rpc.worker),
        swap32(rpc.epoch), swap16(rpc.ps), int64(rpc.count), int64(rpc.reserved), swap32(rpc.seq),
        swap32(rpc.iteration), swap32(rpc.live), swap32(rpc.served), swap32(rpc.refused),
        int64(swap64(rpc.t0)), swap32(rpc.ps_proc), swap32(rpc.ps_queue), swap32(rpc.residence),
    )  # fmt: skip


@compiled
def lane_bytes(op: int, flags: int) -> int:
    """Bytes that a lane takes in an RPC of this shape, or -1 where there is no such shape."""
    if op >= len(_LANE_BYTES) or flags >= _LANE_BYTES.shape[1]:
        return -1
    return int64(_LANE_BYTES[op, flags])


@compiled
def well_formed(h: Header, length: int) -> bool:
    """What `header.check` says of an RPC of `length` bytes, if it is no CONTROL."""
    per_lane = lane_bytes(h.op, h.flags)
    if h.version != VERSION or per_lane < 0 or h.count > LANES or h.reserved:
        return False
    if length != HEADER_BYTES + h.count * per_lane:
        return False
    may_refuse = h.live & ~h.served if h.flags & RESPONSE else 0
    if h.op == EMPTY and h.flags & RESPONSE:
        may_refuse = ALL
    if h.live >> h.count or h.served & ~h.live or h.refused & ~may_refuse:
        return False
    if (h.op == EMPTY) != (h.live == 0):
        return False
    return h.op != EMPTY or h.count == 0


@compiled
def hash_of(key: Any) -> Any:
    """The hash that lanes and servers are taken from (`protocol.hashing`)."""
    return key * _HASH


@compiled
def ps_of(key: Any, n_ps: int) -> int:
    """0-based id of the PS that owns the key's share."""
    return (int64(hash_of(key) >> np.uint64(16)) & ALL) * n_ps >> 32


@compiled
def lane_of(key: Any) -> int:
    """Lane of the key in the switch."""
    return int64(hash_of(key) >> _LANE_BITS)
