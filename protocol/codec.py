"""Bytes <-> RPCs. `FastCodec` (struct and numpy) is what the agents run on; scapy_layer.py is its oracle.

All requests of one operation are built at once, as the rows of one 2-D array.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.header import (
    ECHOED,
    HEADER_BYTES,
    HEADER_DTYPE,
    KEY_BYTES,
    KEYS,
    LANES,
    LAYOUT,
    MAX_DATAGRAM,
    NO_KEY,
    RESPONSE,
    VALUE_BYTES,
    VALUES,
    VERSION,
    Header,
    Op,
    offset_of,
    unpack,
)
from protocol.packing import Packing

Keys = NDArray[np.uint64]
Values = NDArray[np.uint32]
"""32-bit two's complement fixed point, held as the residue mod 2^32."""


class Message(NamedTuple):
    """One RPC datagram. `keys` and `values` have shape [count], or are None where the section is absent."""

    header: Header
    keys: Keys | None = None
    values: Values | None = None


class Caller(NamedTuple):
    """Who calls: the identity in every request's header."""

    job: int
    worker: int
    epoch: int


class Codec(Protocol):
    """What the agents' state machines need; a codec keeps no state."""

    def parse(self, datagram: bytes | memoryview) -> Message:
        """Any RPC but CONTROL, checked; raises `MalformedDatagram`."""
        ...

    def build(self, message: Message) -> bytearray:
        """The datagram of a message, whose sections must agree with its flags and count."""
        ...

    def requests(
        self, op: Op, caller: Caller, iteration: int, packing: Packing, keys: Keys, values: Values | None
    ) -> list[memoryview]:
        """The datagrams of a pull (`values` None) or push of `keys` [size]; seq and t0 are left 0."""
        ...

    def stamp_request(self, datagram: memoryview, seq: int, t0: int) -> None:
        """Write sequence number and send time (ns) into a request."""
        ...

    def stamp_answer(self, datagram: bytearray, ps_proc: int, ps_queue: int) -> None:
        """Write a PS's two latencies (ns) into an answer."""
        ...


_SEQ = struct.Struct("!I")
_T0 = struct.Struct("!Q")
_PS_TIMES = struct.Struct("!II")
_SEQ_AT = offset_of("seq")
_T0_AT = offset_of("t0")
_T0_BYTES = slice(_T0_AT, _T0_AT + _T0.size)
_OP_AT = offset_of("op")
_PS_TIMES_AT = offset_of("ps_proc")
MAX_U32 = 2**32 - 1


def answers(answer: bytes | memoryview, header: Header, request: memoryview) -> bool:
    """Whether `answer`, whose header is `header`, is an answer to `request`: it echoes what it must."""
    return bool(
        header.flags & RESPONSE
        and answer[_OP_AT] == request[_OP_AT]
        and answer[ECHOED] == request[ECHOED]
        and answer[_T0_BYTES] == request[_T0_BYTES]
    )


class FastCodec:
    """The codec of the hot path."""

    def parse(self, datagram: bytes | memoryview) -> Message:
        """See `Codec.parse`."""
        header = unpack(datagram)
        flags, count = header.flags, header.count
        at = HEADER_BYTES
        keys = values = None
        if flags & KEYS:
            keys = np.frombuffer(datagram, ">u8", count, at).astype(np.uint64)
            at += count * KEY_BYTES
        if flags & VALUES:
            values = np.frombuffer(datagram, ">u4", count, at).astype(np.uint32)
        return Message(header, keys, values)

    def build(self, message: Message) -> bytearray:
        """See `Codec.build`."""
        datagram = bytearray(LAYOUT.pack(*message.header))
        if message.keys is not None:
            datagram += message.keys.astype(">u8").tobytes()
        if message.values is not None:
            datagram += message.values.astype(">u4").tobytes()
        return datagram

    def requests(
        self, op: Op, caller: Caller, iteration: int, packing: Packing, keys: Keys, values: Values | None
    ) -> list[memoryview]:
        """See `Codec.requests`."""
        lane_bytes = KEY_BYTES if values is None else KEY_BYTES + VALUE_BYTES
        frames = np.zeros((len(packing), MAX_DATAGRAM), dtype=np.uint8)
        _write_headers(frames, op, caller, iteration, packing, 0 if values is None else VALUES)
        by_lane = np.append(keys, np.uint64(NO_KEY))[packing.position].astype(">u8")
        frames[:, HEADER_BYTES : HEADER_BYTES + LANES * KEY_BYTES] = by_lane.view(np.uint8)
        if values is not None:
            by_lane = np.append(values, np.uint32(0))[packing.position].astype(">u4")
            # Values begin behind the last key, so RPCs with as many lanes are written together.
            for count in np.unique(packing.count):
                rows = packing.count == count
                at = HEADER_BYTES + count.item() * KEY_BYTES
                section = by_lane[rows, :count].view(np.uint8)
                frames[rows, at : at + section.shape[1]] = section
        flat = memoryview(frames.data).cast("B")
        return [
            flat[start : start + HEADER_BYTES + count * lane_bytes]
            for start, count in zip(range(0, len(flat), MAX_DATAGRAM), packing.count.tolist(), strict=True)
        ]

    def stamp_request(self, datagram: memoryview, seq: int, t0: int) -> None:
        """See `Codec.stamp_request`."""
        _SEQ.pack_into(datagram, _SEQ_AT, seq)
        _T0.pack_into(datagram, _T0_AT, t0)

    def stamp_answer(self, datagram: bytearray, ps_proc: int, ps_queue: int) -> None:
        """See `Codec.stamp_answer`."""
        _PS_TIMES.pack_into(datagram, _PS_TIMES_AT, min(ps_proc, MAX_U32), min(ps_queue, MAX_U32))


def _write_headers(
    frames: NDArray[np.uint8], op: Op, caller: Caller, iteration: int, packing: Packing, values_flag: int
) -> None:
    header = frames[:, :HEADER_BYTES].view(HEADER_DTYPE)[:, 0]
    header["version"] = VERSION
    header["op"] = op
    header["flags"] = KEYS | values_flag
    header["job"], header["worker"], header["epoch"] = caller
    header["iteration"] = iteration
    header["ps"] = packing.ps
    header["count"] = packing.count
    header["live"] = packing.live
