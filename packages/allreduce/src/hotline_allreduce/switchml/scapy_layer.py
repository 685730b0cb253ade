"""SwitchML's packet as a Scapy layer, a second implementation of the format."""

from __future__ import annotations

from typing import ClassVar

from scapy.fields import BitField, FieldListField, IntField, SignedByteField, XByteField
from scapy.packet import Packet as Layer

from hotline_allreduce.switchml.packet import KIND, OCTETS, SIZE, VALUES, SwitchMLPacket, parse


class SwitchMLLayer(Layer):  # fields are named as in `SwitchMLPacket`
    name = "SwitchML"
    fields_desc: ClassVar = [
        BitField("kind", KIND, 4),
        BitField("unused", 0, 1),
        BitField("size", SIZE, 3),
        XByteField("job", 0),
        IntField("chunk", 0),
        BitField("set", 0, 1),
        BitField("slot", 0, 15),
        FieldListField("exponents", [], SignedByteField("exponent", 0), count_from=lambda _: 2),
        FieldListField("values", [], IntField("value", 0), count_from=lambda _: VALUES),
    ]


def encode_with_scapy(datagram: bytes) -> bytes:
    packet = parse(datagram)
    lists = {"exponents": list(packet.exponents), "values": list(packet.values)}
    return bytes(SwitchMLLayer(**{**packet._asdict(), **lists}))


def decode_with_scapy(datagram: bytes) -> bytes:
    if len(datagram) != OCTETS:
        return b""
    packet = SwitchMLLayer(datagram)
    return SwitchMLPacket._make(getattr(packet, name) for name in SwitchMLPacket._fields).build()
