"""The network of a run on Mininet, and its nodes.

Hosts have static neighbours; each target has a class of switches, all with the same options.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.tables import CPU_PORT
from experiment.config import Config
from experiment.errors import SwitchFailed
from foundation.protocol import addressing
from foundation.protocol.addressing import Endpoint
from softswitch.errors import SwitchEnded
from softswitch.processes import (
    DEVICE_ID,
    SOFTSWITCH,
    WITHOUT_PROGRAM,
    SwitchProcess,
    find_bmv2,
    start_switch,
    switch_command,
)
from topologies import routes
from topologies.mininet_api import Host, Mininet, Switch, lg, setLogLevel
from topologies.placement import Placement
from topologies.signals import STOP

Counters = dict[str, Any]  # JSON (`softswitch.ports.report.SwitchCounters`)
_START_TIMEOUT_S = 30.0
_RESTART_TIMEOUT_S = 120.0
"""Longer than `_START_TIMEOUT_S`, since a restart competes with the run for CPU time."""
_STOP_TIMEOUT_S = 5.0
_COUNTERS_TIMEOUT_S = 1.0
_COUNTERS_POLL_INTERVAL_S = 0.005
_POLL_INTERVAL_S = 0.05


class TestbedHost(Host):  # type: ignore[misc]  # Mininet has no types
    """A host with a static neighbour entry for every endpoint, since the switch answers no ARP."""

    @property
    def interface_without_ipv6(self) -> str:
        """Interface on which IPv6 is disabled, or "all" for all interfaces of the host."""
        return "all"

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:  # Mininet's parameters
        STOP.raise_if_requested()
        super().config(**params)
        interface = self.defaultIntf().name
        entries = [
            f"neigh replace {each.address} lladdr {each.mac} nud permanent dev {interface}"
            for each in neighbours
            if each.address != self.IP()
        ]
        self.cmd(f"sysctl -qw net.ipv6.conf.{self.interface_without_ipv6}.disable_ipv6=1")
        # The switch forwards frames unchanged, so their checksums must be complete.
        self.cmd(f"ethtool -K {interface} tx off")
        self.cmd("ip -batch - <<'END'\n" + "\n".join(entries) + "\nEND")


class ScriptHost(TestbedHost):
    """A worker's address in the root namespace; only packets sent from it go to the testbed."""

    def __init__(self, name: str, **params: Any) -> None:  # Mininet's parameters
        super().__init__(name, inNamespace=False, **params)
        self._address: str | None = None

    @property
    def interface_without_ipv6(self) -> str:
        """The interface to the testbed's switch: the machine may use IPv6 on its other interfaces."""
        return str(self.defaultIntf().name)

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:  # Mininet's parameters
        ip = params.pop("ip")
        super().config(neighbours, **params)
        self._address = ip.partition("/")[0]
        routes.add(self._address, ip, self.defaultIntf().name)

    def terminate(self) -> None:
        if self._address is not None:
            routes.remove(self._address)
        super().terminate()


class TargetSwitch(Switch):  # type: ignore[misc]  # Mininet has no types
    """A P4Runtime switch process in the root namespace, attached to this node's interfaces."""

    def __init__(
        self, name: str, *, port: int, log_dir: Path, cpu: int | None, impairment: str | None,
        datapath: str, **params: Any,  # Mininet's parameters
    ) -> None:  # fmt: skip
        super().__init__(name, **params)
        self.address = f"127.0.0.1:{port}"
        self.log_dir = log_dir
        self.cpu = cpu
        self.impairment = impairment
        self.datapath = datapath
        self.switch_process: SwitchProcess | None = None
        self.is_listening = False
        """Whether the process handles SIGUSR1, which asks for counters. Before, SIGUSR1 would end it."""
        self.restarts = 0

    @property
    def log(self) -> Path:
        return self.log_dir / f"{self.name}.log"

    def command(self) -> list[str]:
        raise NotImplementedError  # each target starts its own program

    def start(self, controllers: Sequence[object]) -> None:
        for interface in self.interfaces().values():
            self.cmd(f"sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1")
        process = self._launch()
        try:
            process.wait_until_it_listens(_START_TIMEOUT_S)
        except SwitchEnded as error:
            raise self._failure_error(error) from None
        self.is_listening = True

    def restart(self) -> None:
        """Start a new process after the previous one has ended; then await `wait_until_listening`."""
        if self.switch_process is not None:
            self.switch_process.output.close()
        self.restarts += 1
        self._launch()

    def _launch(self) -> SwitchProcess:
        self.is_listening = False
        taskset_command = [] if self.cpu is None else ["taskset", "--cpu-list", str(self.cpu)]
        self.switch_process = start_switch(
            [*taskset_command, *self.command()], self.log.open("a+b"), self.address
        )
        return self.switch_process

    async def wait_until_listening(self) -> None:
        assert self.switch_process is not None
        deadline = time.monotonic() + _RESTART_TIMEOUT_S
        while not self.switch_process.listens():
            if time.monotonic() > deadline:
                raise SwitchFailed(
                    f"{self.name} does not listen after {_RESTART_TIMEOUT_S:.0f} s ({self.log})"
                )
            await asyncio.sleep(_POLL_INTERVAL_S)
        self.is_listening = True

    def stop(self, deleteIntfs: bool = True) -> None:
        if self.switch_process is not None:
            self.switch_process.end(_STOP_TIMEOUT_S)
            self.switch_process.output.close()
            self.switch_process = None
        super().stop(deleteIntfs)

    async def wait_until_failed(self) -> None:
        """Wait until the process ends although nothing has stopped it, and then raise SwitchFailed."""
        assert self.switch_process is not None
        while (error := self.switch_process.exit_error()) is None:
            await asyncio.sleep(_POLL_INTERVAL_S)
        raise self._failure_error(error)

    def counters(self) -> Counters | None:
        return None

    def interfaces(self) -> dict[int, str]:
        # Mininet gives port 0 to the loopback interface.
        return {port: str(interface) for port, interface in sorted(self.intfs.items()) if port > 0}

    def _failure_error(self, error: SwitchEnded) -> SwitchFailed:
        return SwitchFailed(f"{self.name}: {error} ({self.log})")


class SoftSwitch(TargetSwitch):
    def command(self) -> list[str]:
        options = [*WITHOUT_PROGRAM, "--counters", str(self._counters_file), "--datapath", self.datapath]
        if self.cpu is not None and self.datapath != "sockets":
            options += ["--rps-cpu", str(self.cpu)]
        if self.impairment is not None:
            options += [
                option
                for port in self.interfaces()
                for direction in ("in", "out")
                for option in ("--impair", f"{port}:{direction}:{self.impairment}")
            ]
        return switch_command(SOFTSWITCH, self.address, self.interfaces(), cpu_port=CPU_PORT, options=options)

    def counters(self) -> Counters | None:
        switch_process = self.switch_process
        if switch_process is None or not self.is_listening or switch_process.exit_error() is not None:
            return None
        previous_inode = self._counters_file.stat().st_ino  # changes when the file is replaced
        switch_process.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _COUNTERS_TIMEOUT_S
        while self._counters_file.stat().st_ino == previous_inode:
            if time.monotonic() > deadline:
                return None
            time.sleep(_COUNTERS_POLL_INTERVAL_S)
        counters: Counters = json.loads(self._counters_file.read_bytes())
        return counters

    @property
    def _counters_file(self) -> Path:
        return self.log_dir / f"{self.name}.counters.json"


class Bmv2Switch(TargetSwitch):
    """BMv2's `simple_switch_grpc`, from HOTLINE_BMV2 or PATH."""

    # Builds with nanomsg open this socket and leave it behind.
    _NOTIFICATIONS = Path(f"/tmp/bmv2-{DEVICE_ID}-notifications.ipc")

    def command(self) -> list[str]:
        options = [*WITHOUT_PROGRAM, "--log-level", "off"]
        return switch_command(
            [find_bmv2()], self.address, self.interfaces(), cpu_port=CPU_PORT, options=options
        )

    def stop(self, deleteIntfs: bool = True) -> None:
        super().stop(deleteIntfs)
        self._NOTIFICATIONS.unlink(missing_ok=True)


TARGETS: dict[str, type[TargetSwitch]] = {"softswitch": SoftSwitch, "bmv2": Bmv2Switch}


@dataclass(frozen=True, slots=True)
class RunningNetwork:
    """The running network. `workers` and `servers` are in order of their numbers."""

    mininet: Mininet
    switch: TargetSwitch
    workers: list[TestbedHost]
    servers: list[TestbedHost]

    @property
    def address(self) -> str:
        return self.switch.address


@contextmanager
def network(
    config: Config, placement: Placement, log_dir: Path, worker_class: type[TestbedHost] = TestbedHost
) -> Iterator[RunningNetwork]:
    # Show the command line's output, and not Mininet's own log.
    setLogLevel("output")
    lg.propagate = False
    mininet = Mininet(controller=None, build=False, ipBase=f"10.0.0.0/{addressing.PREFIX_LENGTH}")
    try:
        built_network = _add_nodes(mininet, config, placement, log_dir, worker_class)
        mininet.build()
        mininet.start()
        yield built_network
    finally:
        mininet.stop()


def _add_nodes(
    mininet: Mininet, config: Config, placement: Placement, log_dir: Path, worker_class: type[TestbedHost]
) -> RunningNetwork:
    workers = [addressing.worker(number) for number in range(1, config.workers + 1)]
    servers = [addressing.server(number) for number in range(1, config.servers + 1)]
    services = [addressing.service(number) for number in range(1, config.servers + 1)]
    endpoints = [*workers, *servers, *services, addressing.controller()]
    switch = mininet.addSwitch(
        addressing.SWITCH_NAME,
        cls=TARGETS[config.target],
        port=config.p4runtime_port,
        log_dir=log_dir,
        cpu=placement.switch,
        datapath=config.datapath,
        impairment=config.faults.impairment(config.seed),
    )
    hosts = []
    for port, endpoint in enumerate((*workers, *servers), start=1):
        STOP.raise_if_requested()
        host = mininet.addHost(
            endpoint.name,
            cls=worker_class if port <= config.workers else TestbedHost,
            ip=f"{endpoint.address}/{addressing.PREFIX_LENGTH}",
            mac=endpoint.mac,
            neighbours=endpoints,
        )
        mininet.addLink(host, switch, port2=port)
        hosts.append(host)
    return RunningNetwork(mininet, switch, hosts[: config.workers], hosts[config.workers :])
