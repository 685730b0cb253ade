"""The switches under test, each as a process of its own on the bench's interfaces."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.client import DEVICE, Client
from bench.errors import BenchError
from bench.network import switch_interface
from bench.processes import Placement, free_port, process
from conformance.errors import ConformanceError
from controller.tables import CPU_PORT
from targets.bmv2 import installed_bmv2

SOFTSWITCH = "softswitch"
BMV2 = "BMv2"


class Running(NamedTuple):
    """A switch without a program yet, and its primary controller."""

    pid: int
    client: Client


def find_bmv2() -> str | None:
    """Path of `simple_switch_grpc`: from HOTLINE_BMV2 (the program or its folder), else from PATH."""
    try:
        return installed_bmv2()
    except ConformanceError as error:
        raise BenchError(str(error)) from None


def switches() -> list[str]:
    """The softswitch and, where it is installed, BMv2."""
    return [SOFTSWITCH] if find_bmv2() is None else [SOFTSWITCH, BMV2]


@contextmanager
def running(name: str, ports: Sequence[int], cores: Placement) -> Iterator[Running]:
    """Run a switch until the block ends."""
    with started(name, ports, cores) as (child, address), Client(address) as client:
        yield Running(child.pid, client)


@contextmanager
def started(
    name: str,
    ports: Sequence[int],
    cores: Placement,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a switch, whose P4Runtime server will be at the address; end it with the block."""
    address = f"127.0.0.1:{free_port()}"
    own_cores = (cores.softswitch,) if name == SOFTSWITCH else cores.bmv2
    with process(_command(name, ports, address), own_cores, environment, folder) as child:
        yield child, address


def _command(name: str, ports: Sequence[int], address: str) -> list[str]:
    program = [sys.executable, "-m", "softswitch"] if name == SOFTSWITCH else [find_bmv2() or BMV2]
    interfaces = [word for port in ports for word in ("-i", f"{port}@{switch_interface(port)}")]
    # --device-id stands before the "--" that separates BMv2's options from its target's.
    return [
        *program, "--no-p4", "--device-id", str(DEVICE), *interfaces,
        "--", "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT),
    ]  # fmt: skip
