"""Mininet nodes: hosts with fixed neighbours, and a switch class for each target.

Both targets take the same options and serve P4Runtime; neither is given a program at its start.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from controller.tables import CPU_PORT
from experiment.errors import SwitchFailed
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
from topologies.mininet_api import Host, Switch
from topologies.signals import STOP

_START_S = 30.0
_START_AGAIN_S = 120.0
"""Beside a run."""
_STOP_S = 5.0
_COUNTERS_S = 1.0
_WATCH_S = 0.05


class TestbedHost(Host):  # type: ignore[misc]  # Mininet has no types
    """A host that knows everybody's MAC address, since the switch answers no ARP."""

    @property
    def without_ipv6(self) -> str:
        """Interfaces that speak IPv4 alone."""
        return "all"

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:
        """Configure the interface; `neighbours` are all endpoints of the testbed."""
        STOP.check()
        super().config(**params)
        interface = self.defaultIntf().name
        entries = [
            f"neigh replace {each.address} lladdr {each.mac} nud permanent dev {interface}"
            for each in neighbours
            if each.address != self.IP()
        ]
        self.cmd(f"sysctl -qw net.ipv6.conf.{self.without_ipv6}.disable_ipv6=1")
        # The switch forwards frames as they are, so checksums must be whole when they leave.
        self.cmd(f"ethtool -K {interface} tx off")
        self.cmd("ip -batch - <<'END'\n" + "\n".join(entries) + "\nEND")


class ScriptHost(TestbedHost):
    """A worker's address outside of all namespaces, for processes that know of none and need no root.

    Only what is sent from the address goes to the testbed: the machine's own routes are as they were.
    """

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, inNamespace=False, **params)
        self._address: str | None = None

    @property
    def without_ipv6(self) -> str:
        """Its own: the others are the machine's."""
        return str(self.defaultIntf().name)

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:
        """Configure the interface, and a route for what is sent from its address, `ip` (ADDRESS/BITS)."""
        ip = params.pop("ip")
        super().config(neighbours, **params)
        self._address = ip.partition("/")[0]
        routes.add(self._address, ip, self.defaultIntf().name)

    def terminate(self) -> None:
        """End the node, and its route."""
        if self._address is not None:
            routes.remove(self._address)
        super().terminate()


class TargetSwitch(Switch):  # type: ignore[misc]  # Mininet has no types
    """A P4Runtime switch process in the root namespace, attached to this node's interfaces."""

    def __init__(
        self, name: str, *, port: int, log_dir: Path, cpu: int | None, impairment: str | None,
        datapath: str, **params: Any,
    ) -> None:  # fmt: skip
        super().__init__(name, **params)
        self.address = f"127.0.0.1:{port}"
        """HOST:PORT of the P4Runtime server."""
        self.log_dir = log_dir
        self.cpu = cpu
        self.impairment = impairment
        self.datapath = datapath
        self.running: SwitchProcess | None = None
        self.listens = False
        """Before that a signal which asks for its counters would end it."""
        self.restarts = 0

    @property
    def log(self) -> Path:
        """What the process prints."""
        return self.log_dir / f"{self.name}.log"

    def command(self) -> list[str]:
        """Command line of the target."""
        raise NotImplementedError

    def start(self, controllers: Sequence[object]) -> None:
        """Start the process and wait until it listens; SwitchFailed when it does not."""
        for interface in self.interfaces().values():
            self.cmd(f"sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1")
        starting = self._launch()
        try:
            starting.wait_until_it_listens(_START_S)
        except SwitchEnded as error:
            raise self._died(error) from None
        self.listens = True

    def start_again(self) -> None:
        """Start the process after its end; `until_it_listens` waits for it."""
        if self.running is not None:
            self.running.output.close()
        self.restarts += 1
        self._launch()

    def _launch(self) -> SwitchProcess:
        self.listens = False
        pin = [] if self.cpu is None else ["taskset", "--cpu-list", str(self.cpu)]
        self.running = start_switch([*pin, *self.command()], self.log.open("a+b"), self.address)
        return self.running

    async def until_it_listens(self) -> None:
        """Wait until the process that has been started listens; SwitchFailed when it does not."""
        assert self.running is not None
        until = time.monotonic() + _START_AGAIN_S
        while not self.running.listens():
            if time.monotonic() > until:
                raise SwitchFailed(f"{self.name} does not listen after {_START_AGAIN_S:.0f} s ({self.log})")
            await asyncio.sleep(_WATCH_S)
        self.listens = True

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the process, then Mininet's part."""
        if self.running is not None:
            self.running.end(_STOP_S)
            self.running.output.close()
            self.running = None
        super().stop(deleteIntfs)

    async def until_it_dies(self) -> None:
        """Wait for an end of the process that nobody asked for, and raise it as SwitchFailed."""
        assert self.running is not None
        while (ended := self.running.ended()) is None:
            await asyncio.sleep(_WATCH_S)
        raise self._died(ended)

    def counters(self) -> dict[str, Any] | None:
        """What the target has counted at its ports, as it is now; None where it does not tell."""
        return None

    def interfaces(self) -> dict[int, str]:
        """Interfaces of the switch's ports, by port number."""
        return {port: str(interface) for port, interface in sorted(self.intfs.items()) if port > 0}

    def _died(self, ended: SwitchEnded) -> SwitchFailed:
        return SwitchFailed(f"{self.name}: {ended} ({self.log})")


class SoftSwitch(TargetSwitch):
    """The embedded switch of this project."""

    def command(self) -> list[str]:
        """`python -m softswitch`, with the faults that it shall make at every port, both ways."""
        options = [*WITHOUT_PROGRAM, "--counters", str(self._counters), "--datapath", self.datapath]
        if self.cpu is not None and self.datapath != "sockets":
            options += ["--rps-cpu", str(self.cpu)]
        if self.impairment is not None:
            options += [
                option
                for port in self.interfaces()
                for way in ("in", "out")
                for option in ("--impair", f"{port}:{way}:{self.impairment}")
            ]
        return switch_command(SOFTSWITCH, self.address, self.interfaces(), cpu_port=CPU_PORT, options=options)

    def counters(self) -> dict[str, Any] | None:
        """Let the switch write its counters, and read them (see `SwitchCounters`)."""
        running = self.running
        if running is None or not self.listens or running.ended() is not None:
            return None
        before = self._counters.stat().st_ino  # another one when the file is replaced
        running.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _COUNTERS_S
        while self._counters.stat().st_ino == before:
            if time.monotonic() > deadline:
                return None
            time.sleep(_COUNTERS_S / 200)
        found: dict[str, Any] = json.loads(self._counters.read_bytes())
        return found

    @property
    def _counters(self) -> Path:
        return self.log_dir / f"{self.name}.counters.json"


class Bmv2Switch(TargetSwitch):
    """BMv2's `simple_switch_grpc`, from HOTLINE_BMV2 or PATH."""

    # Builds with nanomsg open this socket and leave it behind.
    _NOTIFICATIONS = Path(f"/tmp/bmv2-{DEVICE_ID}-notifications.ipc")

    def command(self) -> list[str]:
        """`simple_switch_grpc` without logging."""
        quiet = [*WITHOUT_PROGRAM, "--log-level", "off"]
        return switch_command(
            [find_bmv2()], self.address, self.interfaces(), cpu_port=CPU_PORT, options=quiet
        )

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the process and remove its socket."""
        super().stop(deleteIntfs)
        self._NOTIFICATIONS.unlink(missing_ok=True)


TARGETS: dict[str, type[TargetSwitch]] = {"softswitch": SoftSwitch, "bmv2": Bmv2Switch}
