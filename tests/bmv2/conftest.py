"""A running simple_switch_grpc with the committed program, on veths of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.harness import testnet
from tests.harness.p4rt import Client, load_p4info
from tests.harness.veths import veth_pairs

PORTS = range(1, 4)


@dataclass
class Bmv2:
    """BMv2 with our pipeline: control by `client`, data by a raw socket a port."""

    client: Client
    sockets: dict[int, socket.socket]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def bmv2() -> Iterator[Bmv2]:
    if not shutil.which("simple_switch_grpc"):
        pytest.skip("simple_switch_grpc is not on PATH")
    address = f"127.0.0.1:{free_port()}"
    with veth_pairs("hlb", PORTS) as sockets:
        interfaces = [word for port in PORTS for word in ("-i", f"{port}@hlb{port}-s")]
        command = ["simple_switch_grpc", "--no-p4", *interfaces, "--", "--grpc-server-addr", address]
        process = subprocess.Popen([*command, "--cpu-port", str(testnet.CPU_PORT)], stdout=subprocess.DEVNULL)
        try:
            client = Client(address, load_p4info(testnet.COMPILED / "hotline.p4info.txtpb"), device_id=0)
            try:
                client.set_pipeline((testnet.COMPILED / "hotline.json").read_bytes())
                yield Bmv2(client, sockets)
            finally:
                client.close()
        finally:
            process.terminate()
            process.wait()
