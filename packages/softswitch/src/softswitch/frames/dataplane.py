"""Messages and RPCs of p4.bm.DataplaneInterface, as BMv2's dataplane_interface.proto defines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "p4.bm.DataplaneInterface"
PACKET_STREAM = f"/{SERVICE}/PacketStream"
SET_PORT_STATUS = f"/{SERVICE}/SetPortOperStatus"
STATUS_DOWN, STATUS_UP = 1, 2
"""Values of the enum PortOperStatus; BMv2 refuses its third one, UNKNOWN."""
_PACKAGE = "softswitch.dataplane"
_FIELD = descriptor_pb2.FieldDescriptorProto
_UINT32, _UINT64, _BYTES = _FIELD.TYPE_UINT32, _FIELD.TYPE_UINT64, _FIELD.TYPE_BYTES
_MESSAGES: Mapping[str, Mapping[str, int]] = {
    # PacketStreamRequest and PacketStreamResponse have the same fields.
    "Packet": {"id": _UINT64, "device_id": _UINT64, "port": _UINT32, "packet": _BYTES},
    "PortStatus": {"device_id": _UINT64, "port": _UINT32, "oper_status": _UINT32},
    "Empty": {},
}


def _make_classes() -> dict[str, Any]:  # generated message classes
    file = descriptor_pb2.FileDescriptorProto(name="dataplane.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), start=1):
            message.field.add(name=field, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _make_classes()
Packet, PortStatus, Empty = (_CLASSES[name] for name in _MESSAGES)


def packet_stream(channel: grpc.Channel) -> Any:  # gRPC's callable
    return channel.stream_stream(
        PACKET_STREAM,
        request_serializer=Packet.SerializeToString,
        response_deserializer=Packet.FromString,
    )


def set_port_status(channel: grpc.Channel) -> Any:  # gRPC's callable
    return channel.unary_unary(
        SET_PORT_STATUS,
        request_serializer=PortStatus.SerializeToString,
        response_deserializer=Empty.FromString,
    )
