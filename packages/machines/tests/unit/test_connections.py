"""Who may talk to a supervisor and to the tunnel of its switch, and what ends with a connection."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiment.run_config import Config
from hotline_machines.channel import Channel, Greeting, OperationAnswer, OperationCall, connect
from hotline_machines.errors import MachineLost, MachinesError
from hotline_machines.supervisor.server import CONTROL, END, SupervisorConnections, SupervisorSpec
from hotline_machines.tunnel import p4runtime_tunnel

TOKEN = "a" * 64
_PATIENCE_S = 20.0


class FakeOperations:
    async def double(self, number: int) -> int:
        return 2 * number

    async def refuse(self) -> None:
        raise MachinesError("expected another value")

    async def fail(self) -> None:
        raise ZeroDivisionError("by zero")


@asynccontextmanager
async def supervisor() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Yield the port of a supervisor's server, and the event of its end."""
    spec = SupervisorSpec(
        config=Config(), scheduler="tcp://127.0.0.1:1", run=Path("run"), generation=0, token=TOKEN,
        host="127.0.0.1",
    )  # fmt: skip
    end_event = asyncio.Event()
    connections = SupervisorConnections(spec, end_event)
    operations: Any = FakeOperations()
    connections.operations = operations
    server = await asyncio.start_server(connections.accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], end_event
    finally:
        server.close()
        await connections.close()


async def control(port: int) -> Channel:
    return Channel(*await connect("127.0.0.1", port, Greeting(TOKEN, CONTROL), None))


@pytest.mark.parametrize(
    "greeting",
    [
        Greeting("b" * 64, CONTROL).encode(),
        Greeting(TOKEN[:-1], CONTROL).encode(),
        Greeting("", CONTROL).encode(),
        Greeting(TOKEN, "other").encode(),
        b'{"purpose": "control"}\n',
        b"[1]\n",
        b"\x80\x04\x95\n",
        b"\n",
    ],
)
async def test_without_the_token_a_connection_is_closed_unanswered(greeting: bytes) -> None:
    async with supervisor() as (port, end_event):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(greeting)
        assert await asyncio.wait_for(reader.read(), _PATIENCE_S) == b""
        writer.close()
        assert not end_event.is_set()


async def test_operations_answer_refuse_or_fail() -> None:
    async with supervisor() as (port, _):
        channel = await control(port)
        channel.send(OperationCall(7, "double", {"number": 21}))
        assert await channel.receive() == OperationAnswer(7, 42)
        channel.send(OperationCall(8, "refuse", {}))
        refused = await channel.receive()
        assert isinstance(refused.error, MachinesError) and str(refused.error) == "expected another value"
        channel.send(OperationCall(9, "fail", {}))
        failed = await channel.receive()
        assert isinstance(failed.error, MachineLost) and "ZeroDivisionError: by zero" in str(failed.error)
        await channel.close()


@pytest.mark.parametrize("is_asked", [False, True])
async def test_the_supervisor_ends_with_its_runs_connection(is_asked: bool) -> None:
    async with supervisor() as (port, end_event):
        channel = await control(port)
        channel.send(OperationCall(1, "double", {"number": 1}))
        await channel.receive()
        assert not end_event.is_set()
        if is_asked:
            channel.send(OperationCall(2, END, {}))
        else:
            await channel.close()
        await asyncio.wait_for(end_event.wait(), _PATIENCE_S)
        if is_asked:
            with pytest.raises(MachineLost, match="has closed the connection"):
                await channel.receive()
            await channel.close()


async def test_a_supervisor_refuses_a_second_run_and_keeps_serving_the_first() -> None:
    async with supervisor() as (port, end_event):
        first, second = await control(port), await control(port)
        with pytest.raises(MachineLost):
            await asyncio.wait_for(second.receive(), _PATIENCE_S)
        await second.close()
        first.send(OperationCall(1, "double", {"number": 4}))
        assert (await first.receive()).result == 8
        assert not end_event.is_set()
        await first.close()


CALL = """
import socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(b"hello")
try:
    print(sock.recv(5).decode())
except ConnectionResetError:
    print()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize(("user", "answer"), [(0, "hello"), (65534, "")])
async def test_only_the_runs_user_reaches_the_switch(user: int, answer: str) -> None:
    greetings: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greetings.append(await reader.readline())
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    machine: Any = SimpleNamespace(address="127.0.0.1", port=server.sockets[0].getsockname()[1])
    async with p4runtime_tunnel(machine, TOKEN, None) as address:
        port = address.rpartition(":")[2]
        process = await asyncio.create_subprocess_exec(
            "setpriv", f"--reuid={user}", "--clear-groups", sys.executable, "-c", CALL, port,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate()
    server.close()
    assert output.decode().strip() == answer
    assert greetings == ([Greeting(TOKEN, "p4runtime").encode()] if answer else [])
