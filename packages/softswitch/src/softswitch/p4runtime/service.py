"""The P4Runtime v1 gRPC service of one switch, on asyncio: all changes of its state are in one thread."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Generic

import grpc
from google.protobuf.message import DecodeError
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.messages import pluralize
from softswitch.p4runtime.access import AccessCheck, AccessPolicy, CheckedHandlers, make_policy
from softswitch.p4runtime.batch_status import abort_batch
from softswitch.p4runtime.codecs.values import decode_uint128
from softswitch.p4runtime.messages import Context, method_handlers, p4r
from softswitch.p4runtime.notifications import Notifications
from softswitch.p4runtime.ports import PL, DatagramSocket, FolderOf, MakePipeline, Ports
from softswitch.p4runtime.sessions import Sessions, Stream
from softswitch.p4runtime.status import Refusal, abort, invalid, unimplemented
from softswitch.pipeline import DigestMessage

if TYPE_CHECKING:  # they import numpy and numba, which would delay listening
    from softswitch.p4runtime.control import ControlledPipeline
    from softswitch.p4runtime.pipelines import GetRequest, Pipelines, SetRequest
    from softswitch.p4runtime.plain.request import Request

API_VERSION = "1.6.0"
MAX_MESSAGE_BYTES = 128 << 20  # a pipeline config may be larger than gRPC's default of 4 MiB
MAX_FRAME_BYTES = 65536
MAX_DATAGRAMS_PER_READ = 64  # packet-ins or notices that are read before other tasks run

log = logging.getLogger(__name__)


class P4RuntimeServer(Generic[PL]):
    """A P4Runtime 1.6 server of one device, from `start` to `stop`.

    The server can listen before there are ports: call `start`, then `attach`, `pipelines.load` and `begin`.
    Until `begin`, calls other than arbitration wait. `access` says who may call, also the services of
    `extra_handlers`; the default is `make_policy()`. With `refuses_unset_config` a
    GetForwardingPipelineConfig fails until a config is set, and otherwise returns none.
    """

    def __init__(
        self,
        device_id: int,
        ports: Ports[PL] | None = None,
        make_pipeline: MakePipeline[PL] | None = None,
        access: AccessPolicy | None = None,
        refuses_unset_config: bool = False,
    ) -> None:
        self._device_id = device_id
        self._refuses_unset_config = refuses_unset_config
        self._access = make_policy() if access is None else access
        self.access_check: AccessCheck  # set by `start`
        self._ports: Ports[PL]
        self.pipelines: Pipelines[PL]
        self._is_attached = False
        self._has_begun = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        # The clock is a lambda, because `attach` sets the ports later.
        self._notifications = Notifications(
            self._running_pipeline, self._broadcast, lambda: self._ports.now()
        )
        self._sessions = Sessions(device_id, self._notifications.forget_digests)
        self.digest_listener: Callable[[DigestMessage], None] | None = None
        """Called for each digest, whether or not P4Runtime has configured it."""
        self.extra_handlers: list[grpc.GenericRpcHandler] = []
        self._server: grpc.aio.Server | None = None
        self._resources = ExitStack()
        if ports is not None and make_pipeline is not None:
            self.attach(ports, make_pipeline)

    @property
    def lost_messages(self) -> int:
        """Packets, digests and notifications that a primary controller did not read in time."""
        return self._sessions.lost_messages

    # ---- lifecycle

    def attach(
        self, ports: Ports[PL], make_pipeline: MakePipeline[PL], folder_of: FolderOf[PL] = lambda _: None
    ) -> None:
        """Set the ports; callable from any thread."""
        from softswitch.p4runtime.pipelines import Pipelines

        self._ports = ports
        self.pipelines = Pipelines(
            ports, make_pipeline, folder_of, serves_bare=not self._refuses_unset_config
        )
        self._is_attached = True

    async def start(
        self, address: str, credentials: grpc.ServerCredentials | None = None, *more_addresses: str
    ) -> int:
        """Listen on each HOST:PORT, where port 0 means any free port; return the port of the first address.

        With credentials clients need TLS. Raises SwitchError if it cannot listen.
        """
        for each_address in (address, *more_addresses):
            check_address(each_address)
        options = [
            ("grpc.so_reuseport", 0),  # refuse a port that another server uses
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ]
        self._loop = asyncio.get_running_loop()
        self._server = grpc.aio.server(options=options)
        handlers = method_handlers(self, {"Write": _parse_write})
        with ExitStack() as resources:
            self.access_check = check = AccessCheck(self._access)
            resources.callback(check.close)
            self._server.add_generic_rpc_handlers(
                [CheckedHandlers(each_handlers, check) for each_handlers in (handlers, *self.extra_handlers)]
            )
            ports = []
            for each_address in (address, *more_addresses):
                ports.append(_listen(self._server, each_address, credentials))
                check.listens_at(each_address.rpartition(":")[0], ports[-1])
            await self._server.start()
            self._resources = resources.pop_all()
        if self._is_attached:
            self.begin()
        return ports[0]

    def begin(self) -> None:
        """Serve all calls, after `attach` and `pipelines.load`; call this in the event loop's thread."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._ports.cpu_socket.fileno(), self._forward_packet_ins)
        loop.add_reader(self._ports.notice_socket.fileno(), self._handle_notices)
        self._notifications.reschedule()
        self._has_begun.set()

    def port_status_changed(self, port: int, is_up: bool) -> None:
        """Report that a port went down or up; callable from any thread."""
        self._loop.call_soon_threadsafe(self.pipelines.set_port_status, port, is_up)

    def reschedule_notifications(self) -> None:
        """Set the alarm of notifications again, after a change that another service made."""
        self._notifications.reschedule()

    async def stop(self) -> None:
        if self._has_begun.is_set():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._ports.cpu_socket.fileno())
            loop.remove_reader(self._ports.notice_socket.fileno())
            self._notifications.stop()
            self._has_begun.clear()
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
        self._resources.close()

    # ---- unary and server-streaming RPCs

    async def Write(self, request: Request, context: Context) -> p4r.WriteResponse:
        async with _abort_on_refusal(context):
            await self._wait_until_begun(request.head.device_id)
            self._check_primary(request.head)
            results = self.pipelines.get_served().write_bytes(request)
            self._notifications.reschedule()
        if any(results):
            await abort_batch(context, "update", results)
        return p4r.WriteResponse()

    async def Read(self, request: p4r.ReadRequest, context: Context) -> None:
        """Answer a batch of queries (P4Runtime 1.4 §13). Any role may read all entities."""
        async with _abort_on_refusal(context):
            await self._wait_until_begun(request.device_id)
            responses, results = self.pipelines.get_served().read(request)
        for response in responses:
            await context.write(response)
        if any(results):
            await abort_batch(context, "entity", results)

    async def SetForwardingPipelineConfig(
        self, request: SetRequest, context: Context
    ) -> p4r.SetForwardingPipelineConfigResponse:
        async with _abort_on_refusal(context):
            await self._wait_until_begun(request.device_id)
            self._check_primary(request)
            self.pipelines.set(request)
            self._notifications.reschedule()
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(
        self, request: GetRequest, context: Context
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """Return the saved pipeline config.

        If none is set, return a response without config (P4Runtime 1.4 §15), or refuse the call as BMv2 does.
        """
        async with _abort_on_refusal(context):
            await self._wait_until_begun(request.device_id)
            if self._refuses_unset_config:
                self.pipelines.get_served()
        return self.pipelines.get(request)

    async def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: Context
    ) -> p4r.CapabilitiesResponse:
        async with _abort_on_refusal(context):
            if request.device_id:
                self._check_device(request.device_id)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    async def _wait_until_begun(self, device_id: int) -> None:
        self._check_device(device_id)
        await self._has_begun.wait()

    def _check_device(self, device_id: int) -> None:
        if device_id != self._device_id:
            text = f"device {device_id} is not here, this is device {self._device_id}"
            raise Refusal(StatusCode.NOT_FOUND, text)

    def _check_primary(self, request: p4r.WriteRequest | SetRequest) -> None:
        election_id = decode_uint128(request.election_id) if request.HasField("election_id") else None
        self._sessions.check_write(request.role, election_id)

    # ---- stream

    async def StreamChannel(
        self, requests: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> None:
        """Serve a controller: arbitration, packets, digests and notifications (P4Runtime 1.4 §16)."""
        stream = Stream()
        sender = asyncio.create_task(_send_responses(stream, context))
        receiver = asyncio.create_task(self._receive_all(stream, requests))
        try:
            await asyncio.wait((sender, receiver), return_when=asyncio.FIRST_COMPLETED)
            self._sessions.leave(stream)
            # A stream whose last messages are being written must not end: gRPC would never answer.
            stream.close()
            await sender
            if receiver.done():
                receiver.result()
            if stream.refusal is not None:
                await context.abort(stream.refusal.code, str(stream.refusal))
        finally:
            sender.cancel()
            receiver.cancel()
            self._sessions.leave(stream)

    async def _receive_all(self, stream: Stream, requests: AsyncIterator[p4r.StreamMessageRequest]) -> None:
        """Receive until the controller ends the stream, or a refusal does."""
        try:
            async for request in requests:
                if request.WhichOneof("update") != "arbitration":
                    await self._has_begun.wait()
                if stream.is_closed:
                    return
                self._receive(stream, request)
                await stream.wait_for_room()
        except Refusal as refusal:
            stream.refusal = refusal
        except DecodeError as error:
            stream.refusal = invalid(str(error))

    def _receive(self, stream: Stream, request: p4r.StreamMessageRequest) -> None:
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._sessions.update(stream, request.arbitration)
            return
        error = p4r.StreamError()
        try:
            if kind == "packet":
                error.packet_out.packet_out.CopyFrom(request.packet)
                self._sessions.check_primary(stream, "packet-out")
                self._send_packet_out(request.packet)
            elif kind == "digest_ack":
                error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
                self._sessions.check_primary(stream, "digest acknowledgement")
                self.pipelines.get_running().digests.acknowledge(request.digest_ack)
            else:
                error.other.other.CopyFrom(request.other)
                raise unimplemented(f"{kind or 'an empty stream message'} is not supported by softswitch")
        except Refusal as refusal:
            error.canonical_code, error.message = refusal.canonical_code, str(refusal)
            stream.send(p4r.StreamMessageResponse(error=error))

    def _send_packet_out(self, packet: p4r.PacketOut) -> None:
        frame = self.pipelines.get_running().packet_out.make_frame(packet)
        try:
            self._ports.cpu_socket.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, "the CPU port's queue is full") from None
        except OSError as error:
            raise invalid(f"packet-out of {pluralize(len(frame), 'byte')}: {error.strerror}") from None

    def _running_pipeline(self) -> ControlledPipeline[PL] | None:
        return self.pipelines.running if self._is_attached else None

    def _forward_packet_ins(self) -> None:
        for frame in _read_datagrams(self._ports.cpu_socket):
            control = self._running_pipeline()
            if control is None:
                continue
            try:
                self._broadcast(p4r.StreamMessageResponse(packet=control.packet_in.make_packet_in(frame)))
            except ValueError as error:
                log.warning("%s", error)

    def _handle_notices(self) -> None:
        for data in _read_datagrams(self._ports.notice_socket):
            control = self.pipelines.active
            if control is None:
                continue
            notice = control.pipeline.decode_notice(data)
            self._notifications.handle_notice(notice)
            if self.digest_listener is not None and isinstance(notice, DigestMessage):
                self.digest_listener(notice)

    def _broadcast(self, response: p4r.StreamMessageResponse) -> None:
        self._sessions.broadcast(response)


def _parse_write(data: bytes) -> Request:
    from softswitch.p4runtime.plain.request import Request

    return Request(data)


def _read_datagrams(source: DatagramSocket) -> Iterator[bytes]:
    for _ in range(MAX_DATAGRAMS_PER_READ):
        try:
            yield source.recv(MAX_FRAME_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return


def _listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    port: int
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError:  # gRPC gives no reason
        raise SwitchError(f"cannot listen on {address!r}: expected HOST:PORT") from None
    return port


def check_address(address: str) -> None:
    """Raise SwitchError with the system's reason if HOST:PORT cannot be bound; gRPC reports no reason."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC's sockets have
            probe.bind((host.strip("[]"), int(port)))
    except (ValueError, OverflowError):
        raise SwitchError(f"cannot listen on {address!r}: expected HOST:PORT") from None
    except OSError as error:
        raise SwitchError(f"cannot listen on {address}: {error.strerror}") from None


async def _send_responses(stream: Stream, context: Context) -> None:
    while (response := await stream.next_response()) is not None:
        await context.write(response)


@asynccontextmanager
async def _abort_on_refusal(context: Context) -> AsyncIterator[None]:
    try:
        yield
    except Refusal as refusal:
        await abort(context, refusal.code, str(refusal))
