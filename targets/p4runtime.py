"""A plain P4Runtime client: primary over one stream, and every refusal in the switch's own words."""

from __future__ import annotations

import queue
import threading
from typing import TypeVar

import grpc
from finsy.proto import p4i, p4r, p4r_grpc, rpc_status

from softswitch.errors import SwitchError

_ELECTION_ID = 1
_TIMEOUT = 30.0
_DETAILS_KEY = "grpc-status-details-bin"
RECONNECT_SOON = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
"""Channel options: a switch that has just been started listens in a moment, not in gRPC's second."""

R = TypeVar("R")
A = TypeVar("A")


class P4RuntimeError(SwitchError):
    """The switch refused a call, or did not answer."""


class Client:
    """Primary controller of a device; every call raises `P4RuntimeError` with the switch's own words."""

    def __init__(self, address: str, device_id: int) -> None:
        self._device_id = device_id
        self._channel = grpc.insecure_channel(address, RECONNECT_SOON)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._is_primary = threading.Event()
        self._reader = threading.Thread(target=self._read_stream)

    def become_primary(self) -> None:
        """Open the stream and win the election."""
        try:
            grpc.channel_ready_future(self._channel).result(timeout=_TIMEOUT)
        except grpc.FutureTimeoutError:
            raise P4RuntimeError("no answer over P4Runtime") from None
        self._reader.start()
        arbitration = p4r.MasterArbitrationUpdate(device_id=self._device_id)
        arbitration.election_id.low = _ELECTION_ID
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        if not self._is_primary.wait(_TIMEOUT):
            raise P4RuntimeError("no answer to the arbitration")

    def close(self) -> None:
        """End the stream and the connection."""
        self._requests.put(None)
        self._channel.close()
        if self._reader.is_alive():
            self._reader.join()

    def _read_stream(self) -> None:
        try:
            for message in self._stub.StreamChannel(iter(self._requests.get, None)):
                if message.HasField("arbitration"):
                    self._is_primary.set()
        except grpc.RpcError:
            pass  # the switch is gone, as every other call then says

    def set_pipeline(self, p4info: p4i.P4Info, program: bytes) -> None:
        """Verify and commit a program."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._device_id, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        request.election_id.low = _ELECTION_ID
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = program
        self._call(self._stub.SetForwardingPipelineConfig, request)

    def write(self, update: p4r.Update) -> None:
        """Apply one update."""
        request = p4r.WriteRequest(device_id=self._device_id, updates=[update])
        request.election_id.low = _ELECTION_ID
        self._call(self._stub.Write, request)

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        """All entities that match one query."""
        request = p4r.ReadRequest(device_id=self._device_id, entities=[entity])
        try:
            answers = list(self._stub.Read(request, timeout=_TIMEOUT))
        except grpc.RpcError as error:
            raise P4RuntimeError(reason_of(error)) from None
        return [found for answer in answers for found in answer.entities]

    def _call(self, method: grpc.UnaryUnaryMultiCallable[R, A], request: R) -> None:
        try:
            method(request, timeout=_TIMEOUT)
        except grpc.RpcError as error:
            raise P4RuntimeError(reason_of(error)) from None


def reason_of(error: grpc.RpcError) -> str:
    """The first error that the details of a Write name (P4Runtime 1.4 §12.3), else the call's own."""
    assert isinstance(error, grpc.Call)
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            for detail in rpc_status.Status.FromString(value).details:
                found = p4r.Error()
                if detail.Unpack(found) and found.canonical_code:
                    return f"code {found.canonical_code}: {found.message or 'no message'}"
    return f"{error.code().name}: {error.details() or 'no message'}"
