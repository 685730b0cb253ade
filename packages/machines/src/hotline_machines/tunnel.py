"""A P4Runtime address of this machine that leads to the switch, for root and the user of the run."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from hotline_machines.channel import Greeting, connect, copy_both_ways
from hotline_machines.errors import MachineLost
from hotline_machines.remote import RemoteMachine
from hotline_machines.supervisor.server import P4RUNTIME
from softswitch.p4runtime.peers import Endpoint, PeerUsers

_LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def p4runtime_tunnel(
    machine: RemoteMachine, token: str, tls: ssl.SSLContext | None
) -> AsyncIterator[str]:
    """Listen on the loopback, and yield the address HOST:PORT."""
    tasks: set[asyncio.Task[None]] = set()
    users = PeerUsers()

    def may_call(writer: asyncio.StreamWriter) -> bool:
        (host, port), (own_host, own_port) = (
            writer.get_extra_info(name) for name in ("peername", "sockname")
        )
        uid = users.find_uid(Endpoint(ip_address(host), port), [Endpoint(ip_address(own_host), own_port)])
        return uid in (0, os.geteuid())

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            if may_call(writer):
                streams = await connect(machine.address, machine.port, Greeting(token, P4RUNTIME), tls)
                await copy_both_ways(reader, writer, *streams)
        except (MachineLost, OSError, asyncio.CancelledError):
            pass  # gRPC reports that its connection is closed
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(accept, _LOOPBACK, 0)
    try:
        yield f"{_LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        users.close()
