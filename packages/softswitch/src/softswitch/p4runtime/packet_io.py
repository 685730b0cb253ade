"""Packet-in and packet-out: the controller header as metadata by ID (P4Runtime 1.4 §16.1)."""

from __future__ import annotations

from softswitch.messages import pluralize
from softswitch.p4runtime.codecs.fields import FieldGroup
from softswitch.p4runtime.codecs.uses import Uses
from softswitch.p4runtime.messages import p4r


class ControllerHeader:
    """The header that precedes a frame on the CPU port. Its fields are packed in order."""

    def __init__(self, fields: FieldGroup, uses: Uses) -> None:
        self._fields, self._uses = fields, uses
        bits = sum(field.width for field in fields.fields)
        self._length = (bits + 7) // 8
        self._padding = self._length * 8 - bits

    def make_frame(self, packet_out: p4r.PacketOut) -> bytes:
        metadata = [(field.metadata_id, field.value) for field in packet_out.metadata]
        header = 0
        try:
            values = self._fields.decode(metadata)
        finally:
            self._uses.settle()
        for field, value in zip(self._fields.fields, values, strict=True):
            header = header << field.width | value
        return (header << self._padding).to_bytes(self._length, "big") + packet_out.payload

    def make_packet_in(self, frame: bytes) -> p4r.PacketIn:
        if len(frame) < self._length:
            length = pluralize(len(frame), "byte")
            raise ValueError(f"packet-in of {length} is shorter than its header of {self._length} bytes")
        header = int.from_bytes(frame[: self._length], "big") >> self._padding
        values = []
        for field in reversed(self._fields.fields):
            values.append(header & ((1 << field.width) - 1))
            header >>= field.width
        packet_in = p4r.PacketIn(payload=frame[self._length :])
        for metadata_id, value in self._fields.encode(values[::-1]):
            packet_in.metadata.add(metadata_id=metadata_id, value=value)
        return packet_in
