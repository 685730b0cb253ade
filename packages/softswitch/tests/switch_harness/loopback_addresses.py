"""Print at how many loopback addresses a switch that listens at each ADDRESS serves its user, as JSON."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
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


async def listen(address: str) -> int | str:
    """Return the number of addresses, or why the switch cannot listen."""
    with closing(FakePorts()) as ports:
        server = P4RuntimeServer[Any](DEVICE, ports, InterpretedPipeline)
        try:
            return await count_served(await server.start(f"{address}:0"))
        except Exception as error:  # the other addresses are still to come
            return repr(error)
        finally:
            await server.stop()


async def main(addresses: Sequence[str]) -> None:
    print(json.dumps({address: await listen(address) for address in addresses}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
