"""The P4Runtime v1 gRPC service of one switch, on asyncio: all its state changes in one thread."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

import grpc
from finsy.proto import U128, p4r, p4r_grpc
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.arbitration import Arbiter, Notices
from softswitch.p4runtime.control import PL, ControlledPipeline, MakePipeline
from softswitch.p4runtime.status import Context, Refusal, abort_batch, denied, invalid, unimplemented

API_VERSION = "1.4.0"
MAX_MESSAGE = 128 << 20  # bytes; a pipeline config may be larger than gRPC's default of 4 MiB
MAX_FRAME = 65536  # bytes
MAX_WAITING = 4096  # messages to a slow controller; packet-ins beyond these are dropped
FRAMES_AT_ONCE = 64  # packet-ins taken before other work gets its turn

RUNS = TypeVar("RUNS", contravariant=True)
log = logging.getLogger(__name__)
SetRequest = p4r.SetForwardingPipelineConfigRequest
GetRequest = p4r.GetForwardingPipelineConfigRequest


class Ports(Protocol[RUNS]):
    """The switch's ports, which run a pipeline of the kind that they can run."""

    @property
    def cpu_socket(self) -> socket.socket:
        """The controller's end of the CPU port: a datagram for each frame, in both directions."""
        ...

    def start(self, pipeline: RUNS) -> None:
        """Begin to forward with a pipeline."""
        ...

    def stop(self) -> None:
        """Stop forwarding."""
        ...


class _Stream:
    """A controller's stream, with the messages that wait to be sent on it."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[p4r.StreamMessageResponse] = asyncio.Queue()


class P4RuntimeServer(p4r_grpc.P4RuntimeServicer, Generic[PL]):
    """Serves P4Runtime 1.4 for the device that `ports` forwards for.

    `load` and `start` it, and `stop` it before the ports are closed.
    """

    def __init__(self, device_id: int, ports: Ports[PL], make_pipeline: MakePipeline[PL]) -> None:
        self._device_id = device_id
        self._ports = ports
        self._make = make_pipeline
        self._arbiter: Arbiter[_Stream] = Arbiter(device_id)
        self._control: ControlledPipeline[PL] | None = None
        self._is_committed = False
        self._server: grpc.aio.Server | None = None

    # ---- life

    def load(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Save and commit a pipeline config, as VERIFY_AND_COMMIT does; `Refusal` where that fails."""
        self._save(config)
        self._commit()

    async def start(self, address: str) -> int:
        """Listen on HOST:PORT (port 0: any) and return the port; `SwitchError` where that is not possible."""
        _check_address(address)
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.max_send_message_length", MAX_MESSAGE),
        ]
        self._server = grpc.aio.server(options=options)
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        port: int = self._server.add_insecure_port(address)
        await self._server.start()
        asyncio.get_running_loop().add_reader(self._ports.cpu_socket.fileno(), self._packets_in)
        return port

    async def stop(self) -> None:
        """Close all streams and stop listening."""
        if self._server is not None:
            asyncio.get_running_loop().remove_reader(self._ports.cpu_socket.fileno())
            await self._server.stop(grace=None)
            self._server = None

    # ---- unary and server-streaming RPCs

    async def Write(self, request: p4r.WriteRequest, context: Context) -> p4r.WriteResponse:
        """Do a batch of updates (P4Runtime 1.4 §12)."""
        async with _refusals(context):
            self._check_primary(request)
            results = self._controlled().write(request)
        if any(results):
            await abort_batch(context, "update", results)
        return p4r.WriteResponse()

    async def Read(self, request: p4r.ReadRequest, context: Context) -> AsyncIterator[p4r.ReadResponse]:
        """Answer a batch of queries (P4Runtime 1.4 §13). Any role may read everything."""
        async with _refusals(context):
            self._check_device(request.device_id)
            responses, results = self._controlled().read(request)
        for response in responses:
            yield response
        if any(results):
            await abort_batch(context, "entity", results)

    async def SetForwardingPipelineConfig(
        self, request: SetRequest, context: Context
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Verify, save or commit a pipeline config (P4Runtime 1.4 §14)."""
        async with _refusals(context):
            self._check_primary(request)
            self._set_config(request)
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(
        self, request: GetRequest, context: Context
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The saved pipeline config, or no config (P4Runtime 1.4 §15)."""
        async with _refusals(context):
            self._check_device(request.device_id)
        response = p4r.GetForwardingPipelineConfigResponse()
        if self._control is not None:
            response.config.CopyFrom(self._control.config)
            if request.response_type in (GetRequest.COOKIE_ONLY, GetRequest.DEVICE_CONFIG_AND_COOKIE):
                response.config.ClearField("p4info")
            if request.response_type in (GetRequest.COOKIE_ONLY, GetRequest.P4INFO_AND_COOKIE):
                response.config.ClearField("p4_device_config")
        return response

    async def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: Context
    ) -> p4r.CapabilitiesResponse:
        """The API version (P4Runtime 1.4 §17)."""
        async with _refusals(context):
            if request.device_id:
                self._check_device(request.device_id)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def _check_device(self, device_id: int) -> None:
        if device_id != self._device_id:
            text = f"device {device_id} is not here, this is device {self._device_id}"
            raise Refusal(StatusCode.NOT_FOUND, text)

    def _check_primary(self, request: p4r.WriteRequest | SetRequest) -> None:
        self._check_device(request.device_id)
        election_id = U128.decode(request.election_id) if request.HasField("election_id") else None
        self._arbiter.check_write(request.role, election_id)

    def _controlled(self) -> ControlledPipeline[PL]:
        if self._control is None:
            raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config is set")
        return self._control

    # ---- pipeline config

    def _set_config(self, request: SetRequest) -> None:
        has_config, action = request.HasField("config"), request.action
        if action == SetRequest.VERIFY:
            ControlledPipeline(request.config, self._make)
        elif action == SetRequest.VERIFY_AND_SAVE:
            self._save(request.config)
        elif action == SetRequest.VERIFY_AND_COMMIT:
            self.load(request.config)
        elif action == SetRequest.COMMIT:
            if has_config:
                raise invalid("COMMIT takes no config, it commits the one that was saved")
            if self._control is None or self._is_committed:
                raise Refusal(StatusCode.NOT_FOUND, "no config is saved: VERIFY_AND_SAVE one before COMMIT")
            self._commit()
        elif action == SetRequest.RECONCILE_AND_COMMIT:
            self._reconcile(request.config)
        else:
            raise invalid(f"action {action} of SetForwardingPipelineConfig is not known")

    def _save(self, config: p4r.ForwardingPipelineConfig) -> None:
        """From now on P4Runtime is about this config: its writes wait in its own pipeline for the commit."""
        self._control = ControlledPipeline(config, self._make)
        self._is_committed = False

    def _commit(self) -> None:
        control = self._controlled()
        self._ports.stop()
        self._ports.start(control.pipeline)
        self._is_committed = True
        log.info("pipeline committed")

    def _reconcile(self, config: p4r.ForwardingPipelineConfig) -> None:
        if self._control is None:
            self._save(config)
        elif not self._control.reconcile(config):
            raise invalid("RECONCILE_AND_COMMIT: the pipeline is another one, its state cannot be preserved")
        if not self._is_committed:
            self._commit()

    # ---- stream

    async def StreamChannel(  # type: ignore[override]  # grpc.aio takes a coroutine that writes, too
        self, requests: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> None:
        """A controller's session: arbitration and packets (P4Runtime 1.4 §16)."""
        stream = _Stream()
        sender = asyncio.create_task(_send(stream, context))
        try:
            async with _refusals(context):
                async for request in requests:
                    self._receive(stream, request)
        finally:
            sender.cancel()
            _post(self._arbiter.leave(stream))

    def _receive(self, stream: _Stream, request: p4r.StreamMessageRequest) -> None:
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            _post(self._arbiter.update(stream, request.arbitration))
            return
        error = p4r.StreamError()
        try:
            if kind == "packet":
                error.packet_out.packet_out.CopyFrom(request.packet)
                self._packet_out(stream, request.packet)
                return
            if kind == "digest_ack":
                error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
            else:
                error.other.other.CopyFrom(request.other)
            raise unimplemented(f"{kind or 'an empty stream message'} is not supported by softswitch")
        except Refusal as refusal:
            error.canonical_code, error.message = refusal.number, str(refusal)
            stream.waiting.put_nowait(p4r.StreamMessageResponse(error=error))

    def _packet_out(self, stream: _Stream, packet: p4r.PacketOut) -> None:
        if not self._arbiter.is_primary(stream):
            raise denied("packet-out is for the primary controller only")
        frame = self._controlled().packet_out.frame(packet)
        try:
            self._ports.cpu_socket.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, "the CPU port's queue is full") from None
        except OSError as error:
            raise invalid(f"packet-out of {len(frame)} bytes: {error.strerror}") from None

    def _packets_in(self) -> None:
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = self._ports.cpu_socket.recv(MAX_FRAME, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if self._control is not None:
                self._packet_in(self._control, frame)

    def _packet_in(self, control: ControlledPipeline[PL], frame: bytes) -> None:
        try:
            response = p4r.StreamMessageResponse(packet=control.packet_in.packet(frame))
        except ValueError as error:
            log.warning("%s", error)
            return
        for stream in self._arbiter.primaries:
            if stream.waiting.qsize() < MAX_WAITING:
                stream.waiting.put_nowait(response)


def _check_address(address: str) -> None:
    """Raise `SwitchError` with the system's reason where HOST:PORT cannot be listened on; gRPC gives none."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC's own
            probe.bind((host.strip("[]"), int(port)))
    except (ValueError, OverflowError):
        raise SwitchError(f"cannot listen on {address!r}: HOST:PORT expected") from None
    except OSError as error:
        raise SwitchError(f"cannot listen on {address}: {error.strerror}") from None


async def _send(stream: _Stream, context: Context) -> None:
    while True:
        await context.write(await stream.waiting.get())


def _post(notices: Notices[_Stream]) -> None:
    for stream, response in notices:
        stream.waiting.put_nowait(response)


@asynccontextmanager
async def _refusals(context: Context) -> AsyncIterator[None]:
    """End the call with the code and text of a `Refusal` raised inside."""
    try:
        yield
    except Refusal as refusal:
        await context.abort(refusal.code, str(refusal))
