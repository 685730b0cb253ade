"""Parser and builder of RPCs for the controller and tests; compiled agents use `rpc.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, KEYS, LAYOUT, VALUES, Header, unpack

Keys = NDArray[np.uint64]
Values = NDArray[np.uint32]
"""Values in 32-bit two's complement fixed point, stored as the residue mod 2^32."""
MAX_U32 = 2**32 - 1


class Message(NamedTuple):
    """One RPC datagram. A section that is absent is None."""

    header: Header
    keys: Keys | None = None
    """Keys of the lanes, [count]."""
    values: Values | None = None
    """The lanes' rows, one after the other, [count · dim]."""


class Caller(NamedTuple):
    job: int
    worker: int
    epoch: int


def parse(datagram: bytes | memoryview) -> Message:
    """Decode and check an RPC, or only the header of a CONTROL; raises `MalformedDatagram`."""
    header = unpack(datagram)
    offset = HEADER_BYTES
    keys = values = None
    if header.flags & KEYS:
        keys = np.frombuffer(datagram, ">u8", header.count, offset).astype(np.uint64)
        offset += header.count * KEY_BYTES
    if header.flags & VALUES:
        values = np.frombuffer(datagram, ">u4", header.count * header.dim, offset).astype(np.uint32)
    return Message(header, keys, values)


def build(message: Message) -> bytes:
    """Encode a message, whose sections must agree with its flags and count."""
    datagram = LAYOUT.pack(*message.header)
    if message.keys is not None:
        datagram += message.keys.astype(">u8").tobytes()
    if message.values is not None:
        datagram += message.values.astype(">u4").tobytes()
    return datagram
