"""Unix sockets of a machine, by which workers of scripts reach the rendezvous of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

from hotline_machines.channel import WorkerConnection, copy_both_ways

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class WorkerSockets:
    """Sockets by path. The run fetches each connection by one of its own, as only supervisors listen."""

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._servers: dict[Path, asyncio.AbstractServer] = {}
        self._numbers = count(1)
        self._unfetched: dict[int, _Streams] = {}

    async def listen(self, path: Path) -> None:
        """Listen at a socket that all users of this machine may use."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)

        def offer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            number = next(self._numbers)
            self._unfetched[number] = reader, writer
            self._send(WorkerConnection(number, str(path)))

        self._servers[path] = await asyncio.start_unix_server(offer, path)
        path.chmod(0o666)

    async def carry(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy between a worker's connection and one of the run, until both have ended."""
        streams = self._unfetched.pop(number, None)
        if streams is not None:
            await copy_both_ways(*streams, reader, writer)

    def stop(self, path: Path) -> None:
        """Listen no longer; connections that have been fetched go on."""
        if (server := self._servers.pop(path, None)) is not None:
            server.close()
            path.unlink(missing_ok=True)

    def close(self) -> None:
        for path in list(self._servers):
            self.stop(path)
        for _, writer in self._unfetched.values():
            writer.close()
