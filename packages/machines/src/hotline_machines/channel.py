"""The connection of a run to the supervisor of a machine: pickles over TCP, or over TLS where dask uses it.

Both ends run as the run's users, so pickles give no rights that the token at the beginning has not given.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import ssl
import struct
from contextlib import suppress
from typing import Any, NamedTuple

from hotline_machines.errors import MachineLost

SILENCE_S = 5.0
"""Time without an acknowledgement of the other kernel after which both ends count the connection as lost."""
_LENGTH = struct.Struct("!Q")
_PROBES = int(SILENCE_S) - 1
_MAX_BUFFER_BYTES = 1 << 24


class Greeting(NamedTuple):
    """The first line of a connection."""

    token: str
    purpose: str

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode() + b"\n"


class ChildOutput(NamedTuple):
    """Bytes that a process of a machine has written."""

    process: int
    is_error: bool
    data: bytes


class ChildExit(NamedTuple):
    process: int
    code: int


class SwitchEnd(NamedTuple):
    """The end of the switch's process, which nothing has stopped."""

    launch: int
    message: str


class WorkerConnection(NamedTuple):
    """A connection of a script's worker to a socket of the machine; the run is to fetch it by its number."""

    number: int
    path: str


class EndRequest(NamedTuple):
    """The request of another process, `hotline down`, that the run ends."""


class Farewell(NamedTuple):
    """The last message of a supervisor that the run has not asked to end."""

    reason: str


class OperationCall(NamedTuple):
    number: int
    operation: str
    arguments: dict[str, Any]  # of any operation


class OperationAnswer(NamedTuple):
    number: int
    result: Any  # of any operation
    error: Exception | None = None


class Channel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        set_timeouts(writer)

    def send(self, message: object) -> None:
        if not self._writer.is_closing():
            data = pickle.dumps(message)
            self._writer.write(_LENGTH.pack(len(data)) + data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def receive(self) -> Any:
        """Return the next message; raise `MachineLost` when there will be none."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(length))
        except asyncio.IncompleteReadError:
            raise MachineLost("its supervisor has closed the connection") from None
        except OSError as error:
            raise MachineLost(f"the connection to its supervisor failed: {error.strerror or error}") from None

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, asyncio.TimeoutError):  # it is closed in any case
            await asyncio.wait_for(self._writer.wait_closed(), SILENCE_S)


def set_timeouts(writer: asyncio.StreamWriter) -> None:
    """Have the kernel detect that the other end is not reachable, whatever this process is busy with."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_S * 1e3))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def connect(
    host: str, port: int, greeting: Greeting, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(host, port, ssl=tls, limit=_MAX_BUFFER_BYTES), SILENCE_S
        )
    except (OSError, asyncio.TimeoutError) as error:
        reason = getattr(error, "strerror", None) or f"no answer within {SILENCE_S:.0f} s"
        raise MachineLost(f"its supervisor at {host}:{port} cannot be reached: {reason}") from None
    writer.write(greeting.encode())
    return reader, writer


async def copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy all bytes, and then close the writer."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # either end is gone, which the other is to see
    finally:
        writer.close()


async def copy_both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> None:
    await asyncio.gather(copy_stream(reader, other_writer), copy_stream(other_reader, writer))
