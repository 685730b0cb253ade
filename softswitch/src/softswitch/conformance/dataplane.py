"""Frames to and from BMv2 over gRPC (`p4.bm.DataplaneInterface`), without interfaces and privileges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from softswitch.conformance.client import RECONNECT_SOON, refusal
from softswitch.conformance.errors import P4RuntimeError
from softswitch.pipeline import Output
from softswitch.processes import DEVICE_ID

_STREAM = "/p4.bm.DataplaneInterface/PacketStream"
_TIMEOUT = 30.0
_POLL_SECONDS = 0.01


def _packet_message() -> Any:  # a generated message class
    """Return the class of PacketStreamRequest and PacketStreamResponse (BMv2: dataplane_interface.proto)."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="targets/dataplane.proto", package="p4.bm", syntax="proto3"
    )
    message = file.message_type.add(name="Packet")
    types = {"id": field.TYPE_UINT64, "device_id": field.TYPE_UINT64, "port": field.TYPE_UINT32}
    for number, (name, kind) in enumerate({**types, "packet": field.TYPE_BYTES}.items(), start=1):
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p4.bm.Packet"))


_Packet = _packet_message()


class Dataplane:
    """The ports of a BMv2 that was started with `--dp-grpc-server-addr`."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, RECONNECT_SOON)
        self._open = self._channel.stream_stream(
            _STREAM, request_serializer=_Packet.SerializeToString, response_deserializer=_Packet.FromString
        )

    def close(self) -> None:
        self._channel.close()

    def wait_until_started(self) -> None:
        """Wait until BMv2 accepts packets (until then: UNAVAILABLE); raise P4RuntimeError after a timeout."""
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                self._exchange([])
                return
            except grpc.RpcError as error:
                if _code(error) is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                    raise P4RuntimeError(f"no packets can be sent: {refusal(error)}") from None
            time.sleep(_POLL_SECONDS)

    def process(self, port: int, frame: bytes) -> list[Output]:
        return self.process_all(port, [frame])

    def process_all(self, port: int, frames: Sequence[bytes]) -> list[Output]:
        """Return the outputs of frames that arrive back to back; raises P4RuntimeError."""
        try:
            return self._exchange([_Packet(device_id=DEVICE_ID, port=port, packet=each) for each in frames])
        except grpc.RpcError as error:
            raise P4RuntimeError(f"a packet into port {port}: {refusal(error)}") from None

    def _exchange(self, packets: list[Message]) -> list[Output]:
        # BMv2 ends the stream after the last packet has left the switch (PacketStream in switch_runner.cpp),
        # so no output is missed, and no timeout is needed.
        answers = self._open(iter(packets), timeout=_TIMEOUT, wait_for_ready=True)
        return [Output(answer.port, answer.packet) for answer in answers]


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()
