"""ATP's packet as a Scapy layer, a second implementation of the format."""

from __future__ import annotations

from typing import ClassVar

from scapy.fields import BitField, ByteField, FieldListField, IntField, LongField, ShortField
from scapy.packet import Packet as Layer

from hotline_allreduce.atp.packet import CELLS, OCTETS, SERVER_SHIFT, VALUES, AtpPacket, parse


class ATP(Layer):  # fields are named as in `AtpPacket`, except flags
    name = "ATP"
    fields_desc: ClassVar = [
        IntField("bitmap", 0),
        ByteField("workers", 0),
        BitField("overflow", 0, 1),
        BitField("server", 0, 2),
        BitField("second_pass", 0, 1),
        BitField("ecn", 0, 1),
        BitField("is_resent", 0, 1),
        BitField("collided", 0, 1),
        BitField("is_ack", 0, 1),
        ShortField("app", 0),
        ShortField("sequence", 0),
        ShortField("cell", 0),
        ShortField("second_cell", CELLS),  # `cell` + CELLS, for the second half of the values
        FieldListField("values", [], IntField("value", 0), count_from=lambda _: VALUES),
        LongField("key", 0),
        IntField("length", 0),
    ]


_FLAGS = (  # field of the layer, its shift in the octet of flags, and its mask after the shift
    ("overflow", 7, 1), ("server", SERVER_SHIFT, 3), ("second_pass", 4, 1), ("ecn", 3, 1),
    ("is_resent", 2, 1), ("collided", 1, 1), ("is_ack", 0, 1),
)  # fmt: skip


def encode_with_scapy(datagram: bytes) -> bytes:
    packet = parse(datagram)
    fields = {**packet._asdict(), "second_cell": packet.cell + CELLS, "values": list(packet.values)}
    flags = fields.pop("flags")
    return bytes(ATP(**fields, **{name: flags >> shift & mask for name, shift, mask in _FLAGS}))


def decode_with_scapy(datagram: bytes) -> bytes:
    if len(datagram) != OCTETS:
        return b""
    packet = ATP(datagram)
    flags = sum(getattr(packet, name) << shift for name, shift, _ in _FLAGS)
    fields = {name: getattr(packet, name) for name in AtpPacket._fields if name != "flags"}
    return AtpPacket(**fields, flags=flags).build()
