"""The switches under test, each in its own process on the bench's interfaces."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient, encode_writes, pipeline_config
from softswitch.errors import SwitchError
from softswitch.kernel.probe import probe
from switch_bench.network import switch_interface
from switch_bench.processes import Cores
from switch_bench.workload import Setup

SOFTSWITCH = "softswitch"
KERNEL = "softswitch (kernel)"
BMV2 = "BMv2"
_CPU_PORT = 255
MAX_BURSTS: Mapping[str, int] = {BMV2: 16}
"""Frames that reach a switch at once when the generator catches up; a port of BMv2 has room for 64."""


class RunningSwitch(NamedTuple):
    """Process ID of a running switch, and the client that is its primary controller."""

    pid: int
    client: P4RuntimeClient


def switches() -> list[str]:
    """Return softswitch, also on its kernel datapath if that is possible, and BMv2 if it is installed."""
    kernel = [KERNEL] if probe() is None else []  # `probe` returns the reason against it
    return [SOFTSWITCH, *kernel, *([] if processes.installed_bmv2() is None else [BMV2])]


@contextmanager
def running_switch(name: str, ports: Sequence[int], cores: Cores) -> Iterator[RunningSwitch]:
    with running_process(name, ports, cores) as switch, P4RuntimeClient(switch.address) as client:
        yield RunningSwitch(switch.process.pid, client)


@contextmanager
def running_process(
    name: str,
    ports: Sequence[int],
    cores: Cores,
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[processes.SwitchProcess]:
    """Run a switch during the block; if the block raises `SwitchError`, print the switch's log."""
    interfaces = {port: switch_interface(port) for port in ports}
    if name == BMV2:
        starting = processes.bmv2(interfaces, cpu_port=_CPU_PORT, cores=cores.bmv2)
    else:
        starting = processes.softswitch(
            interfaces,
            cpu_port=_CPU_PORT,
            options=[*processes.WITHOUT_PROGRAM, "--datapath", "kernel" if name == KERNEL else "sockets"],
            cores=[cores.softswitch],
            environment=environment,
            folder=folder,
        )
    with starting as switch:
        try:
            yield switch
        except SwitchError:
            sys.stderr.write(switch.log())
            raise


def install(client: P4RuntimeClient, setup: Setup) -> None:
    client.set_pipeline(pipeline_config(setup.program.json))
    client.send(encode_writes(setup.updates))


def seconds_to_write(client: P4RuntimeClient, requests: Sequence[bytes]) -> float:
    begin = time.monotonic()
    client.send(requests)
    return time.monotonic() - begin
