"""Print at how many loopback addresses a switch that listens at an ADDRESS serves its user."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import closing
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc

from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.service import P4RuntimeServer
from switch_harness.p4runtime import DEVICE, FakePorts

ADDRESSES = ("127.0.0.1", "127.0.0.5", "[::1]", "localhost")


async def count_served(port: int) -> int:
    served = 0
    for address in ADDRESSES:
        with socket.socket(socket.AF_INET6 if "[" in address else socket.AF_INET) as probe:
            if probe.connect_ex((address.strip("[]"), port)) != 0:
                continue
        async with grpc.aio.insecure_channel(f"{address}:{port}") as channel:
            answer = await p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest())
            served += bool(answer.p4runtime_api_version)
    return served


async def main(listening: str) -> None:
    with closing(FakePorts()) as ports:
        server = P4RuntimeServer[Any](DEVICE, ports, InterpretedPipeline)
        port = await server.start(f"{listening}:0")
        print(await count_served(port))
        await server.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
