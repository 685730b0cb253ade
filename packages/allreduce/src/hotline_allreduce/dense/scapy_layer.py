"""The packet of a dense vector as a Scapy layer, a second implementation of the format."""

from __future__ import annotations

from typing import ClassVar

from scapy.fields import ByteField, FieldListField, IntField, ShortField
from scapy.packet import Packet as Layer

from hotline_allreduce.dense.packet import HEADER, VALUE_BYTES, DensePacket, parse


class Dense(Layer):  # fields are named as in `DensePacket`
    name = "Dense"
    fields_desc: ClassVar = [
        ByteField("kind", 0),
        ByteField("is_float", 0),
        ByteField("worker", 0),
        ByteField("workers", 0),
        ShortField("job", 0),
        ShortField("size", 0),
        IntField("round", 0),
        IntField("chunk", 0),
        FieldListField("values", [], IntField("value", 0)),
    ]


def encode_with_scapy(datagram: bytes) -> bytes:
    packet = parse(datagram)
    return bytes(Dense(**{**packet._asdict(), "values": list(packet.values)}))


def decode_with_scapy(datagram: bytes) -> bytes:
    if len(datagram) < HEADER.size or len(datagram) % VALUE_BYTES:
        return b""
    packet = Dense(datagram)
    return DensePacket._make(getattr(packet, name) for name in DensePacket._fields).build()
