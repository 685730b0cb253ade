"""A running simple_switch_grpc with a compiled program, on veths of its own or on gRPC alone."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from targets.dataplane import Dataplane
from tests.harness import testnet
from tests.harness.match_kinds import MATCH_KINDS
from tests.harness.p4rt import Client, load_p4info
from tests.harness.twins import Twins
from tests.harness.veths import veth_pairs

PORTS = range(1, 4)


@dataclass
class Bmv2:
    """BMv2 with a program: control by `client`, data by a raw socket a port."""

    client: Client
    sockets: dict[int, socket.socket]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(program: Path, bmv2_words: list[str], target_words: list[str]) -> Iterator[Client]:
    """BMv2 with a program, named by its path without suffix. The words are options of it and its target."""
    if not shutil.which("simple_switch_grpc"):
        pytest.skip("simple_switch_grpc is not on PATH")
    address = f"127.0.0.1:{free_port()}"
    command = ["simple_switch_grpc", "--no-p4", *bmv2_words, "--", "--grpc-server-addr", address]
    process = subprocess.Popen([*command, *target_words], stdout=subprocess.DEVNULL)
    try:
        client = Client(address, load_p4info(program.with_suffix(".p4info.txtpb")), device_id=0)
        try:
            client.set_pipeline(program.with_suffix(".json").read_bytes())
            yield client
        finally:
            client.close()
    finally:
        process.terminate()
        process.wait()


@contextmanager
def running(program: Path) -> Iterator[Bmv2]:
    """BMv2 with a program, its ports on veths."""
    with veth_pairs("hlb", PORTS) as sockets:
        interfaces = [word for port in PORTS for word in ("-i", f"{port}@hlb{port}-s")]
        with started(program, interfaces, ["--cpu-port", str(testnet.CPU_PORT)]) as client:
            yield Bmv2(client, sockets)


@contextmanager
def twins(program: Path) -> Iterator[Twins]:
    """BMv2 with a program, all of its ports on gRPC, beside softswitch with the same."""
    data = f"127.0.0.1:{free_port()}"
    with started(program, [], ["--dp-grpc-server-addr", data]) as client:
        ports = Dataplane(data, device_id=0)
        try:
            ports.wait_until_started()
            yield Twins(program, client, ports)
        finally:
            ports.close()


@pytest.fixture
def bmv2() -> Iterator[Bmv2]:
    with running(testnet.COMPILED / "hotline") as switch:
        yield switch


@pytest.fixture
def bmv2_match_kinds() -> Iterator[Bmv2]:
    with running(MATCH_KINDS) as switch:
        yield switch
