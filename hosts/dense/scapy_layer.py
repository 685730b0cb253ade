"""The packet of a dense vector as a Scapy layer, a second implementation of the format."""

from __future__ import annotations

from typing import ClassVar

from scapy.fields import ByteField, FieldListField, IntField, ShortField
from scapy.packet import Packet as Layer

from hosts.dense.packet import HEADER, VALUE_BYTES, DensePacket, parse


class Dense(Layer):
    name = "Dense"
    fields_desc: ClassVar = [
        ByteField("kind", 0),
        ByteField("form", 0),
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
    return bytes(
        Dense(
            kind=packet.kind, form=packet.is_float, worker=packet.worker, workers=packet.workers,
            job=packet.job, size=packet.size, round=packet.round, chunk=packet.chunk,
            values=list(packet.values),
        )
    )  # fmt: skip


def decode_with_scapy(datagram: bytes) -> bytes:
    if len(datagram) < HEADER.size or len(datagram) % VALUE_BYTES:
        return b""
    packet = Dense(datagram)
    return DensePacket(
        packet.kind, packet.form, packet.worker, packet.workers, packet.job, packet.size, packet.round,
        packet.chunk, tuple(packet.values),
    ).build()  # fmt: skip
