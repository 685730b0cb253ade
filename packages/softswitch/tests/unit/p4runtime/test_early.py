"""A server that listens before there are ports: controllers may bid, and other calls wait."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.processes import reserved_port
from switch_harness.p4runtime import (
    DEVICE,
    Controller,
    FakePorts,
    asynchronous,
    config,
    forward,
    update,
)
from switch_harness.wording import says


@asynchronous
async def test_calls_wait_for_the_ports_and_bids_do_not() -> None:
    server: P4RuntimeServer[Any] = P4RuntimeServer(DEVICE)
    ports = FakePorts()
    address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
    async with grpc.aio.insecure_channel(address) as channel:
        first = Controller(p4r_grpc.P4RuntimeStub(channel))
        assert await first.bid(1) == 0
        setting = asyncio.ensure_future(first.set_config("VERIFY_AND_COMMIT", config()))
        writing = asyncio.ensure_future(first.write(update(forward(1))))
        reading = asyncio.ensure_future(first.entries())
        assert await Controller(first.stub).bid(2) == 0  # all that was asked before has come
        answer: Any = await first.stub.Capabilities(p4r.CapabilitiesRequest())
        assert answer.p4runtime_api_version
        assert not (setting.done() or writing.done() or reading.done())
        with pytest.raises(grpc.RpcError) as refused:
            await first.stub.Read(p4r.ReadRequest(device_id=DEVICE + 1)).read()
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        server.attach(ports, InterpretedPipeline)
        server.begin()
        for call in (setting, writing):
            with pytest.raises(grpc.RpcError) as refused:
                await call  # it is not primary any more
            assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(grpc.RpcError) as refused:
            await reading
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    await server.stop()
    ports.close()


@asynchronous
async def test_a_server_listens_at_several_addresses_and_can_stop_without_ports() -> None:
    server: P4RuntimeServer[Any] = P4RuntimeServer(DEVICE)
    await server.start("127.0.0.1:0", None, "127.0.0.2:0")
    await server.stop()


@asynchronous
async def test_several_addresses_are_one_device() -> None:
    ports = FakePorts()
    server: P4RuntimeServer[Any] = P4RuntimeServer(DEVICE, ports, InterpretedPipeline)
    port = await server.start("127.0.0.1:0")
    await server.stop()
    server = P4RuntimeServer(DEVICE, ports, InterpretedPipeline)
    await server.start(f"127.0.0.1:{port}", None, f"127.0.0.2:{port}")
    for host in ("127.0.0.1", "127.0.0.2"):
        async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
            answer: Any = await p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest())
            assert answer.p4runtime_api_version
    await server.stop()
    ports.close()


@asynchronous
async def test_ports_go_down_and_up_from_any_thread() -> None:
    ports = FakePorts()
    server: P4RuntimeServer[Any] = P4RuntimeServer(DEVICE, ports, InterpretedPipeline)
    await server.start("127.0.0.1:0")
    for port, is_up, down in ((5, False, {5}), (6, False, {5, 6}), (5, True, {6})):
        await asyncio.to_thread(server.port_status_changed, port, is_up)
        await asyncio.sleep(0)  # the loop's next turn
        assert server.pipelines._down_ports == down
    await server.stop()
    ports.close()


# Runs a command line with a machine that only looks at what is there when it is made.
_LOOK_BEFORE_THE_MACHINE = """
import socket, sys, types
from importlib import import_module
from softswitch.errors import SwitchError

def look(settings, server):
    host, _, port = settings.addresses[0].rpartition(":")
    socket.create_connection((host, int(port))).close()
    import_module("softswitch.program_files")
    slow = {"numpy", "numba", "llvmlite", "softswitch.p4.compiler"} & set(sys.modules)
    raise SwitchError(f"it listens, with {sorted(slow)}")

sys.modules["softswitch.machine"] = types.SimpleNamespace(Machine=look)
module, *arguments = sys.argv[1:]
sys.argv[1:] = arguments
main = import_module(module).main
main(arguments) if module.endswith("command") else main()
"""


@pytest.mark.parametrize(
    "words", ["softswitch.bmv2.command simple_switch_grpc --no-p4 --", "softswitch.cli --no-p4"]
)
def test_the_grpc_port_opens_before_slow_imports(words: str) -> None:
    """p4-utils gives a switch 10 s for it, on a machine that starts many at a time."""
    with reserved_port(socket.SO_REUSEADDR) as port:
        command = [sys.executable, "-c", _LOOK_BEFORE_THE_MACHINE, *words.split()]
        command += ["--grpc-server-addr", f"127.0.0.1:{port}"]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert says(process.stderr, "it listens, with []")
