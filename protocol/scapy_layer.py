"""Scapy's view of the wire format: to read and forge RPCs by hand, and the oracle of the fast codec.

`ScapyCodec` runs the agents on Scapy alone (CODEC=scapy): slow and readable. Only scapy.packet, scapy.fields
and the UDP layer are imported; scapy.all takes a second and probes the machine.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scapy.fields import (
    ByteEnumField,
    ByteField,
    ConditionalField,
    FieldLenField,
    FieldListField,
    FlagsField,
    IntField,
    LongField,
    ShortField,
    XBitField,
)
from scapy.layers.inet import UDP
from scapy.packet import NoPayload, Packet, bind_layers

from protocol.codec import MAX_U32, Caller, Keys, Message, Values
from protocol.control import MAX_KEYS, Command
from protocol.errors import MalformedDatagram
from protocol.header import (
    HEADER_BYTES,
    HOTLINE_PORT,
    KEYS,
    LANES,
    NO_KEY,
    RESPONSE,
    VALUES,
    VERSION,
    Header,
    Op,
    check,
)
from protocol.packing import Packing

_OPS = {op.value: op.name.lower() for op in Op}
_COMMANDS = {command.value: command.name.lower() for command in Command}


def _answers_values(packet: Packet) -> bool:
    header = packet.underlayer
    return bool(packet.getfieldval("command") in (3, 6) and header is not None and header.flags & RESPONSE)


class HotlineControl(Packet):
    """Body of a CONTROL: a command of the controller to a PS, or the PS's answer."""

    name = "HotlineControl"
    fields_desc: ClassVar = [
        ByteEnumField("command", 4, _COMMANDS),
        ByteField("status", 0),
        ShortField("reserved", 0),
        FieldLenField("n", None, fmt="!I", count_of="keys"),
        # Scapy would not read more than 100.
        FieldListField(
            "keys", [], LongField("key", 0), count_from=lambda packet: packet.n, max_count=MAX_KEYS
        ),
        ConditionalField(
            FieldListField(
                "values", [], IntField("value", 0), count_from=lambda packet: packet.n, max_count=MAX_KEYS
            ),
            _answers_values,
        ),
    ]


class Hotline(Packet):
    """An RPC: the header, then the lanes' keys and values where the flags say so."""

    name = "Hotline"
    fields_desc: ClassVar = [
        ByteField("version", VERSION),
        ByteEnumField("op", Op.PULL, _OPS),
        FlagsField("flags", 0, 16, ["RESPONSE", "KEYS", "VALUES"]),
        ShortField("job", 0),
        ShortField("worker", 0),
        IntField("epoch", 0),
        ShortField("ps", 0),
        ByteField("count", 0),
        ByteField("reserved", 0),
        IntField("seq", 0),
        IntField("iteration", 0),
        XBitField("live", 0, LANES),
        XBitField("served", 0, LANES),
        XBitField("refused", 0, LANES),
        LongField("t0", 0),
        IntField("ps_proc", 0),
        IntField("ps_queue", 0),
        IntField("residence", 0),
        ConditionalField(
            FieldListField("keys", [], LongField("key", NO_KEY), count_from=lambda packet: packet.count),
            lambda packet: packet.flags & KEYS,
        ),
        ConditionalField(
            FieldListField("values", [], IntField("value", 0), count_from=lambda packet: packet.count),
            lambda packet: packet.flags & VALUES,
        ),
    ]


bind_layers(UDP, Hotline, dport=HOTLINE_PORT)
bind_layers(UDP, Hotline, sport=HOTLINE_PORT)
bind_layers(Hotline, HotlineControl, op=int(Op.CONTROL))


class ScapyCodec:
    """The codec for teaching and debugging: each datagram is a `Hotline` packet."""

    def parse(self, datagram: bytes | memoryview) -> Message:
        """See `Codec.parse`."""
        if len(datagram) < HEADER_BYTES:
            raise MalformedDatagram(f"{len(datagram)} bytes, less than the header's {HEADER_BYTES}")
        header = _header(Hotline(bytes(datagram[:HEADER_BYTES])))
        check(header, len(datagram))
        packet = Hotline(bytes(datagram))
        return Message(
            header,
            np.array(packet.keys, dtype=np.uint64) if header.flags & KEYS else None,
            np.array(packet.values, dtype=np.uint32) if header.flags & VALUES else None,
        )

    def build(self, message: Message) -> bytearray:
        """See `Codec.build`."""
        packet = Hotline(**message.header._asdict())
        if message.keys is not None:
            packet.keys = message.keys.tolist()
        if message.values is not None:
            packet.values = message.values.tolist()
        return bytearray(bytes(packet))

    def requests(
        self, op: Op, caller: Caller, iteration: int, packing: Packing, keys: Keys, values: Values | None
    ) -> list[memoryview]:
        """See `Codec.requests`."""
        padded_keys = [*keys.tolist(), NO_KEY]
        padded_values = None if values is None else [*values.tolist(), 0]
        datagrams = []
        for row in range(len(packing)):
            count = int(packing.count[row])
            positions = packing.position[row, :count].tolist()
            packet = Hotline(
                op=op,
                flags=KEYS if values is None else KEYS | VALUES,
                job=caller.job,
                worker=caller.worker,
                epoch=caller.epoch,
                iteration=iteration,
                ps=int(packing.ps[row]),
                count=count,
                live=int(packing.live[row]),
                keys=[padded_keys[position] for position in positions],
            )
            if padded_values is not None:
                packet.values = [padded_values[position] for position in positions]
            datagrams.append(memoryview(bytearray(bytes(packet))))
        return datagrams

    def stamp_request(self, datagram: memoryview, seq: int, t0: int) -> None:
        """See `Codec.stamp_request`."""
        packet = Hotline(bytes(datagram))
        packet.seq = seq
        packet.t0 = t0
        datagram[:] = bytes(packet)

    def stamp_answer(self, datagram: bytearray, ps_proc: int, ps_queue: int) -> None:
        """See `Codec.stamp_answer`."""
        packet = Hotline(bytes(datagram))
        packet.ps_proc = min(ps_proc, MAX_U32)
        packet.ps_queue = min(ps_queue, MAX_U32)
        datagram[:] = bytes(packet)


def _header(packet: Packet) -> Header:
    assert isinstance(packet.payload, NoPayload | HotlineControl)
    return Header._make(int(packet.getfieldval(name)) for name in Header._fields)
