"""Frames into and out of BMv2 over gRPC (its `p4.bm.DataplaneInterface`): no interfaces, no privileges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from softswitch.conformance.client import RECONNECT_SOON, refusal
from softswitch.conformance.errors import P4RuntimeError
from softswitch.pipeline import Output
from softswitch.processes import DEVICE_ID

_STREAM = "/p4.bm.DataplaneInterface/PacketStream"
_TIMEOUT = 30.0
_POLL_SECONDS = 0.01


def _packet_message() -> Any:
    """PacketStreamRequest and -Response, which are alike (services/p4/bm/dataplane_interface.proto)."""
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
        """Close the connection."""
        self._channel.close()

    def wait_until_started(self) -> None:
        """BMv2 serves gRPC a moment before it takes packets, and says UNAVAILABLE till then."""
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
        """All that BMv2 sends because of one frame."""
        return self.process_all(port, [frame])

    def process_all(self, port: int, frames: Sequence[bytes]) -> list[Output]:
        """All that BMv2 sends because of frames that come one right after another."""
        try:
            return self._exchange([_Packet(device_id=DEVICE_ID, port=port, packet=each) for each in frames])
        except grpc.RpcError as error:
            raise P4RuntimeError(f"a packet into port {port}: {refusal(error)}") from None

    def _exchange(self, packets: list[Any]) -> list[Output]:
        # BMv2 ends the stream behind the last packet when it has none left inside (PacketStream in its
        # switch_runner.cpp), so that nothing is missed and nothing has to be waited for.
        answers = self._open(iter(packets), timeout=_TIMEOUT, wait_for_ready=True)
        return [Output(answer.port, answer.packet) for answer in answers]


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()
