"""The wire format as Scapy layers: to dissect and forge RPCs by hand, and for agents with CODEC=scapy.

Only scapy.packet, scapy.fields and the UDP layer are imported; scapy.all takes a second and probes the
machine.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scapy.fields import (
    ByteEnumField,
    ByteField,
    ConditionalField,
    Field,
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

from foundation.errors import MalformedDatagram
from foundation.protocol import codec
from foundation.protocol.codec import Message
from foundation.protocol.control import MAX_KEYS, WITH_VALUES, Command
from foundation.protocol.header import (
    HEADER_BYTES,
    HOTLINE_PORT,
    KEYS,
    NO_KEY,
    RESPONSE,
    VALUES,
    Header,
    Op,
    bits_of_fields,
    check,
)

_COMMANDS = {command.value: command.name.lower() for command in Command}
_FLAGS = ["RESPONSE", "KEYS", "VALUES", "SET", "FIRST", "SECOND", "REPLAY"]  # from bit 0 on


def _has_values(packet: Packet) -> bool:
    header = packet.underlayer
    is_answer = header is not None and header.flags & RESPONSE
    return bool(is_answer and packet.getfieldval("command") in WITH_VALUES)


class HotlineControl(Packet):
    name = "HotlineControl"
    fields_desc: ClassVar = [
        ByteEnumField("command", int(Command.HELLO), _COMMANDS),
        ByteField("status", 0),
        ShortField("reserved", 0),
        FieldLenField("n", None, fmt="!I", count_of="keys"),
        # Scapy's default limit is 100 elements.
        FieldListField(
            "keys", [], LongField("key", 0), count_from=lambda packet: packet.n, max_count=MAX_KEYS
        ),
        ConditionalField(
            FieldListField(
                "values", [], IntField("value", 0), count_from=lambda packet: packet.n, max_count=MAX_KEYS
            ),
            _has_values,
        ),
    ]


_FIELD_TYPES: dict[int, type[Field[Any, Any]]] = {  # Scapy's field types have different parameters
    8: ByteField,
    16: ShortField,
    32: IntField,
    64: LongField,
}


def _field(name: str) -> Field[Any, Any]:
    default, bits = int(Header._field_defaults[name]), bits_of_fields()[name]
    match name:
        case "op":
            return ByteEnumField(name, default, {op.value: op.name.lower() for op in Op})
        case "flags":
            return FlagsField(name, default, bits, _FLAGS)
        case "live" | "served" | "refused":
            return XBitField(name, default, bits)
    return _FIELD_TYPES[bits](name, default)


class Hotline(Packet):
    name = "Hotline"
    fields_desc: ClassVar = [
        *map(_field, Header._fields),
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


def parse(datagram: bytes | memoryview) -> Message:
    if len(datagram) < HEADER_BYTES:
        raise MalformedDatagram(f"{len(datagram)} bytes, less than the header's {HEADER_BYTES}")
    header = _to_header(Hotline(bytes(datagram[:HEADER_BYTES])))
    check(header, len(datagram))
    packet = Hotline(bytes(datagram))
    return Message(
        header,
        np.array(packet.keys, dtype=np.uint64) if header.flags & KEYS else None,
        np.array(packet.values, dtype=np.uint32) if header.flags & VALUES else None,
    )


def build(message: Message) -> bytes:
    packet = Hotline(**message.header._asdict())
    if message.keys is not None:
        packet.keys = message.keys.tolist()
    if message.values is not None:
        packet.values = message.values.tolist()
    return bytes(packet)


def encode_with_scapy(datagram: bytes) -> bytes:
    message = codec.parse(datagram)  # as the agent has encoded it
    return datagram if message.header.op == Op.CONTROL else build(message)


def decode_with_scapy(datagram: bytes) -> bytes:
    """Return a datagram for an agent, decoded by Scapy and encoded by `codec`; empty if it is no RPC."""
    try:
        message = parse(datagram)
    except MalformedDatagram:
        return b""
    return datagram if message.header.op == Op.CONTROL else codec.build(message)


def _to_header(packet: Packet) -> Header:
    assert isinstance(packet.payload, NoPayload | HotlineControl)
    return Header._make(int(packet.getfieldval(name)) for name in Header._fields)
