"""Mininet nodes: hosts with fixed neighbours, and a switch class for each target.

Both targets take the same options and serve P4Runtime; neither is given a program at its start.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from controller.tables import CPU_PORT
from protocol.addressing import Endpoint
from topologies.errors import SwitchFailed
from topologies.mininet_api import Host, Switch

DEVICE_ID = 1
_START_S = 30.0
_STOP_S = 5.0
_COUNTERS_S = 1.0
_WATCH_S = 0.2


class TestbedHost(Host):  # type: ignore[misc]  # Mininet has no types
    """A host that knows everybody's MAC address, since the switch answers no ARP."""

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:
        """Configure the interface; `neighbours` are all endpoints of the testbed."""
        super().config(**params)
        interface = self.defaultIntf().name
        entries = [
            f"neigh replace {each.address} lladdr {each.mac} nud permanent dev {interface}"
            for each in neighbours
            if each.address != self.IP()
        ]
        self.cmd("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
        # The switch forwards frames as they are, so checksums must be whole when they leave.
        self.cmd(f"ethtool -K {interface} tx off")
        self.cmd("ip -batch - <<'END'\n" + "\n".join(entries) + "\nEND")


class TargetSwitch(Switch):  # type: ignore[misc]  # Mininet has no types
    """A P4Runtime switch process in the root namespace, attached to this node's interfaces."""

    def __init__(
        self, name: str, *, port: int, log_dir: Path, cpu: int | None, impairment: str | None, **params: Any
    ) -> None:
        super().__init__(name, **params)
        self.server = ("127.0.0.1", port)
        self.log_dir = log_dir
        self.cpu = cpu
        self.impairment = impairment
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the process prints."""
        return self.log_dir / f"{self.name}.log"

    def command(self) -> list[str]:
        """Command line of the target."""
        raise NotImplementedError

    def start(self, controllers: Sequence[object]) -> None:
        """Start the process and wait until it listens; SwitchFailed when it does not."""
        for interface in self._data_interfaces():
            self.cmd(f"sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1")
        pin = [] if self.cpu is None else ["taskset", "--cpu-list", str(self.cpu)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*pin, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_it_listens()

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the process, then Mininet's part."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        super().stop(deleteIntfs)

    async def until_it_dies(self) -> None:
        """Wait for an end of the process that nobody asked for, and raise it as SwitchFailed."""
        assert self.process is not None
        while self.process.poll() is None:
            await asyncio.sleep(_WATCH_S)
        raise self._died()

    def counters(self) -> dict[str, Any] | None:
        """What the target has counted at its ports, as it is now; None where it does not tell."""
        return None

    def options(self) -> list[str]:
        """Options that both targets share, in simple_switch_grpc's words."""
        interfaces = [option for port, interface in self._ports() for option in ("-i", f"{port}@{interface}")]
        return [*interfaces, "--device-id", str(DEVICE_ID)]

    def server_options(self) -> list[str]:
        """Options of the P4Runtime server; simple_switch_grpc wants them behind a `--`."""
        return ["--grpc-server-addr", "{}:{}".format(*self.server), "--cpu-port", str(CPU_PORT)]

    def _ports(self) -> list[tuple[int, str]]:
        return [(port, str(interface)) for port, interface in sorted(self.intfs.items()) if port > 0]

    def _data_interfaces(self) -> list[str]:
        return [interface for _, interface in self._ports()]

    def _wait_until_it_listens(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self._died()
            try:
                socket.create_connection(self.server, timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise SwitchFailed(f"{self.name}: the switch does not listen at {self.server} after {_START_S:.0f} s")

    def _died(self) -> SwitchFailed:
        assert self.process is not None
        lines = self.log.read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"it printed nothing ({self.log})"
        return SwitchFailed(f"{self.name}: the switch ended with code {self.process.returncode}: {last}")


class SoftSwitch(TargetSwitch):
    """The embedded switch of this project."""

    def command(self) -> list[str]:
        """`python -m softswitch`, with the faults that it shall make at every port, both ways."""
        options = [*self.options(), *self.server_options()]
        if self.impairment is not None:
            options += [
                option
                for port, _ in self._ports()
                for way in ("in", "out")
                for option in ("--impair", f"{port}:{way}:{self.impairment}")
            ]
        return [sys.executable, "-m", "softswitch", "--no-p4", "--counters", str(self._counters), *options]

    def counters(self) -> dict[str, Any] | None:
        """Let the switch write its counters, and read them (see `SwitchCounters`)."""
        if self.process is None or self.process.poll() is not None:
            return None
        before = self._counters.stat().st_ino  # another one when the file is replaced
        self.process.send_signal(signal.SIGUSR1)
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
    """BMv2's `simple_switch_grpc`, from PATH."""

    # Builds with nanomsg open this socket and leave it behind.
    _NOTIFICATIONS = Path(f"/tmp/bmv2-{DEVICE_ID}-notifications.ipc")

    def command(self) -> list[str]:
        """`simple_switch_grpc` without logging."""
        quiet = ["--log-level", "off"]
        return ["simple_switch_grpc", "--no-p4", *self.options(), *quiet, "--", *self.server_options()]

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the process and remove its socket."""
        super().stop(deleteIntfs)
        self._NOTIFICATIONS.unlink(missing_ok=True)


TARGETS: dict[str, type[TargetSwitch]] = {"softswitch": SoftSwitch, "bmv2": Bmv2Switch}
