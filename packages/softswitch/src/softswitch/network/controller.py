"""A P4Runtime controller in a network: sessions of the real service, called in this process.

Calls return at once in virtual time. What a refused call raises has the code and text of the service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NoReturn

import grpc

from softswitch.errors import SwitchError
from softswitch.network.virtual_loop import VirtualLoop
from softswitch.p4runtime.codecs.values import encode_uint128
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.plain.request import Request
from softswitch.p4runtime.service import P4RuntimeServer

Handler = Callable[[Any], object]  # of a message of one kind


class CallRefused(SwitchError):
    """A call that the service has refused, with gRPC's status code."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code, self.details = code, details


class _Context:
    """The part of gRPC's context of a call that the service needs."""

    def __init__(self, take: Callable[[Any], object]) -> None:
        self._take = take

    async def write(self, message: object) -> None:
        self._take(message)

    def set_trailing_metadata(self, metadata: object) -> None:
        pass  # the status of each update, of which the details name the first that failed

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: object = ()
    ) -> NoReturn:
        raise CallRefused(code, details)


class Controller:
    """A controller of one switch; make it by `NetworkSwitch.connect`.

    Handlers of packet-ins, digests and idle timeouts are called at the time at which the message leaves the
    switch; one that takes its time calls `Network.call_after`.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        server: P4RuntimeServer[Any],  # of any pipeline
        device_id: int,
        election_id: int,
        role: str,
    ) -> None:
        self._loop, self._server, self._device_id = loop, server, device_id
        self._election_id = encode_uint128(election_id)
        self._role = role
        self._requests: asyncio.Queue[p4r.StreamMessageRequest | None] = asyncio.Queue()
        self._handlers: dict[str, Handler] = {}
        self._is_primary = False
        self._stream = loop.begin(server.StreamChannel(self._read_requests(), self._context(self._take)))
        arbitration = p4r.MasterArbitrationUpdate(device_id=device_id, election_id=self._election_id)
        if role:
            arbitration.role.name = role
        self._send(p4r.StreamMessageRequest(arbitration=arbitration))

    @property
    def is_primary(self) -> bool:
        return self._is_primary

    def close(self) -> None:
        self._requests.put_nowait(None)
        self._loop.run_due(self._loop.now)

    # -- calls

    def set_pipeline(
        self,
        config: p4r.ForwardingPipelineConfig,
        action: int = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
    ) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            election_id=self._election_id,
            role=self._role,
            action=action,  # type: ignore[arg-type]  # an enum's value
            config=config,
        )
        self._loop.run_now(self._server.SetForwardingPipelineConfig(request, self._context()))

    def get_pipeline(self) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self._device_id)
        return self._loop.run_now(self._server.GetForwardingPipelineConfig(request, self._context())).config

    def write(self, request: p4r.WriteRequest) -> None:
        """Execute updates; the device and the election ID of the request are set to this session's."""
        request.device_id, request.role = self._device_id, self._role
        request.election_id.CopyFrom(self._election_id)
        self._loop.run_now(self._server.Write(Request(request.SerializeToString()), self._context()))

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        found: list[p4r.Entity] = []
        request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
        self._loop.run_now(
            self._server.Read(request, self._context(lambda message: found.extend(message.entities)))
        )
        return found

    # -- stream

    def packet_out(self, payload: bytes, metadata: Mapping[int, bytes] | None = None) -> None:
        """Send a frame to the switch's CPU port; `metadata` are the fields of its header by their IDs."""
        packet = p4r.PacketOut(payload=payload)
        for metadata_id, value in (metadata or {}).items():
            packet.metadata.add(metadata_id=metadata_id, value=value)
        self._send(p4r.StreamMessageRequest(packet=packet))

    def acknowledge(self, digests: p4r.DigestList) -> None:
        ack = p4r.DigestListAck(digest_id=digests.digest_id, list_id=digests.list_id)
        self._send(p4r.StreamMessageRequest(digest_ack=ack))

    def on_packet_in(self, handler: Callable[[p4r.PacketIn], object]) -> None:
        self._handlers["packet"] = handler

    def on_digest(self, handler: Callable[[p4r.DigestList], object]) -> None:
        self._handlers["digest"] = handler

    def on_idle_timeout(self, handler: Callable[[p4r.IdleTimeoutNotification], object]) -> None:
        self._handlers["idle_timeout_notification"] = handler

    def _take(self, response: p4r.StreamMessageResponse) -> None:
        kind = response.WhichOneof("update")
        message = getattr(response, str(kind))
        if kind == "arbitration":
            self._is_primary = message.status.code == 0
        elif kind == "error":
            raise SwitchError(f"the switch refuses a stream message: {message.message}")
        elif kind in self._handlers:
            self._loop.call_soon(self._handlers[kind], message)

    def _send(self, request: p4r.StreamMessageRequest) -> None:
        self._requests.put_nowait(request)
        if not self._loop.is_in_callback:
            self._loop.run_due(self._loop.now)
            self._check_stream()

    def _check_stream(self) -> None:
        if self._stream.done():
            self._stream.result()

    async def _read_requests(self) -> AsyncIterator[p4r.StreamMessageRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    def _context(self, take: Callable[[Any], object] = lambda _: None) -> Any:  # gRPC's, as far as needed
        return _Context(take)
