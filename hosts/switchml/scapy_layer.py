"""SwitchML's packet as a Scapy layer, a second implementation of the format."""

from __future__ import annotations

from typing import ClassVar

from scapy.fields import BitField, FieldListField, IntField, SignedByteField, XByteField
from scapy.packet import Packet as Layer

from hosts.switchml.packet import KIND, OCTETS, SIZE, VALUES, SwitchMLPacket, parse


class SwitchML(Layer):
    name = "SwitchML"
    fields_desc: ClassVar = [
        BitField("kind", KIND, 4),
        BitField("unused", 0, 1),
        BitField("size", SIZE, 3),
        XByteField("job", 0),
        IntField("chunk", 0),
        BitField("pool_set", 0, 1),
        BitField("slot", 0, 15),
        SignedByteField("e0", 0),
        SignedByteField("e1", 0),
        FieldListField("values", [], IntField("value", 0), count_from=lambda _: VALUES),
    ]


def encode_with_scapy(datagram: bytes) -> bytes:
    packet = parse(datagram)
    return bytes(
        SwitchML(
            size=packet.size, job=packet.job, chunk=packet.chunk, pool_set=packet.set, slot=packet.slot,
            e0=packet.exponents[0], e1=packet.exponents[1], values=list(packet.values),
        )
    )  # fmt: skip


def decode_with_scapy(datagram: bytes) -> bytes:
    if len(datagram) != OCTETS:
        return b""
    packet = SwitchML(datagram)
    exponents = (packet.e0, packet.e1)
    return SwitchMLPacket(
        packet.chunk,
        packet.slot,
        packet.pool_set,
        tuple(packet.values),
        exponents,
        packet.job,
        packet.size,
    ).build()
