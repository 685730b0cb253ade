"""The Thrift port of BMv2's command line, where softswitch serves gRPC, too.

The first byte of a connection tells them apart: a Thrift message begins with 0x80, HTTP/2 with "P", and TLS
with 0x16. What is not Thrift is forwarded to the gRPC server, which cannot take over an open connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from softswitch.errors import SwitchError
from softswitch.p4runtime.access import AccessCheck
from softswitch.p4runtime.peers import Endpoint
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.runtime.interface import Runtime
from softswitch.settings import ThriftSettings

if TYPE_CHECKING:
    from softswitch.thrift.learning import LearnNotifications

DEFAULT_NOTIFICATIONS = "ipc:///tmp/bmv2-{}-notifications.ipc"
"""BMv2's default address of notifications, with the ID of the device."""
_LOG = logging.getLogger(__name__)

_FIRST_OF_THRIFT = b"\x80"
_CHUNK_BYTES = 1 << 16
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where a server of all addresses is reached


class ThriftPort:
    """A port for clients of Thrift and of gRPC, from `start` to `stop`.

    Calls over Thrift wait for `runtime`. Connections of gRPC are forwarded to `server` at `grpc_address`,
    HOST:PORT, which checks their clients itself.
    """

    def __init__(
        self,
        settings: ThriftSettings,
        server: P4RuntimeServer[Any],
        runtime: asyncio.Future[Runtime],
        grpc_address: str,
    ) -> None:
        self._settings = settings
        self._server = server
        self._runtime = runtime
        host, port = _split(grpc_address)
        self._grpc_address = _LOOPBACK.get(host, host), port
        self._access: AccessCheck
        self._port: int
        self._notifications: LearnNotifications | None = None
        self._connections: set[asyncio.Task[Any]] = set()
        self._resources = ExitStack()

    async def start(self) -> int:
        """Listen at the address of the settings; return the port. Raises SwitchError if it cannot."""
        host, port = _split(self._settings.address)
        try:
            server = await asyncio.start_server(self._serve, host, port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SwitchError(f"cannot listen on {self._settings.address}: {reason}") from None
        self._resources.callback(server.close)
        self._port = server.sockets[0].getsockname()[1]
        self._access = AccessCheck(self._settings.access)
        self._resources.callback(self._access.close)
        for access in (self._access, self._server.access_check):
            access.listens_at(host, self._port)
        return self._port

    def open_notifications(self, device_id: int) -> None:
        """Send digests from now on, if the settings have an address for them or the program has digests.

        Raises SwitchError if the address of the settings cannot be used.
        """
        control = self._server.pipelines.active
        is_default = self._settings.notifications is None
        if find_spec("pynng") is None or (
            is_default and (control is None or not control.pipeline.program.digests)
        ):
            return
        # Imported late: with what it imports it would delay listening.
        from softswitch.thrift.learning import LearnNotifications

        address = self._settings.notifications or DEFAULT_NOTIFICATIONS.format(device_id)
        try:
            self._notifications = LearnNotifications(address, device_id, self._server)
        except SwitchError as error:
            if not is_default:
                raise
            _LOG.warning("digests are not sent over nanomsg: %s", error)
            return
        self._resources.callback(self._notifications.close)

    async def stop(self) -> None:
        self._resources.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # The client has gone: OSError. It has gone within a message: IncompleteReadError.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                first = await reader.read(1)
                if first == _FIRST_OF_THRIFT:
                    await self._serve_thrift(reader, writer, first)
                elif first:
                    await self._forward(reader, writer, first)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_thrift(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes
    ) -> None:
        runtime = await asyncio.shield(self._runtime)
        # Imported late: with what it imports it would delay listening.
        from softswitch.thrift.server import CallServer, make_services

        services = make_services(runtime, self._port, self._notifications)
        calls = CallServer(services, self._server.reschedule_notifications)
        client = _endpoint(writer, "peername")
        host = client.address if client.address.version == 4 else f"[{client.address}]"
        denial = self._access.denial(f"ipv{client.address.version}:{host}:{client.port}")
        await calls.serve(reader, writer, first, denial)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes
    ) -> None:
        grpc_reader, grpc_writer = await asyncio.open_connection(*self._grpc_address)
        forwarder = _endpoint(grpc_writer, "sockname")
        with self._server.access_check.forwarded(forwarder, _endpoint(writer, "peername")):
            try:
                grpc_writer.write(first)
                await asyncio.gather(_copy(reader, grpc_writer), _copy(grpc_reader, writer))
            finally:
                grpc_writer.close()
                with contextlib.suppress(OSError):
                    await grpc_writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def _endpoint(writer: asyncio.StreamWriter, which: str) -> Endpoint:
    """Return an end of a TCP connection: the "peername", or the "sockname" of this process."""
    host, port, *_ = writer.get_extra_info(which)
    return Endpoint(ipaddress.ip_address(host.partition("%")[0]), port)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
