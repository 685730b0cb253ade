"""Frames to and from BMv2 over gRPC (`p4.bm.DataplaneInterface`), without interfaces or privileges."""

from __future__ import annotations

import time
from collections.abc import Sequence

import grpc
from google.protobuf.message import Message

from softswitch.conformance.client import RECONNECT_OPTIONS, to_p4runtime_error
from softswitch.conformance.errors import P4RuntimeError
from softswitch.frames.dataplane import Packet, packet_stream
from softswitch.pipeline import Output
from softswitch.processes import DEVICE_ID

_TIMEOUT_S = 30.0
_POLL_S = 0.01


class Dataplane:
    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, RECONNECT_OPTIONS)
        self._open_stream = packet_stream(self._channel)

    def close(self) -> None:
        self._channel.close()

    def wait_until_started(self) -> None:
        """Wait until BMv2 accepts packets (until then: UNAVAILABLE); raise P4RuntimeError after a timeout."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                self._exchange([])
                return
            except grpc.RpcError as error:
                if _status_code(error) is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                    raise P4RuntimeError(f"no packets can be sent: {to_p4runtime_error(error)}") from None
            time.sleep(_POLL_S)

    def process(self, port: int, frame: bytes) -> list[Output]:
        return self.process_all(port, [frame])

    def process_all(self, port: int, frames: Sequence[bytes]) -> list[Output]:
        try:
            return self._exchange([Packet(device_id=DEVICE_ID, port=port, packet=frame) for frame in frames])
        except grpc.RpcError as error:
            raise P4RuntimeError(f"a packet into port {port}: {to_p4runtime_error(error)}") from None

    def _exchange(self, packets: list[Message]) -> list[Output]:
        # BMv2 ends the stream after the last packet has left the switch (PacketStream in switch_runner.cpp),
        # so no output is missed. The timeout is only for a switch that hangs.
        answers = self._open_stream(iter(packets), timeout=_TIMEOUT_S, wait_for_ready=True)
        return [Output(answer.port, answer.packet) for answer in answers]


def _status_code(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()
