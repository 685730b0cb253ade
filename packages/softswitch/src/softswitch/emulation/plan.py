"""The plan of a network: what its files say, checked as `softswitch simulate` checks them."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from softswitch.errors import SwitchError
from softswitch.network.files import read_network
from softswitch.network.link import End, LinkHandle
from softswitch.network.network import Network
from softswitch.network.switch import NetworkSwitch
from softswitch.p4runtime.messages import p4r

MAX_INTERFACE_NAME = 15  # Linux: IFNAMSIZ, without its final zero


class CommandFile(NamedTuple):
    """The lines of a command file of simple_switch_CLI, and its name in errors."""

    lines: list[str]
    name: str


class PlannedSwitch(NetworkSwitch):
    """A switch that also records what is written to it, so that a process can get the same."""

    def __init__(self, *arguments: Any) -> None:  # those of `NetworkSwitch`
        super().__init__(*arguments)
        self.writes: list[p4r.WriteRequest | CommandFile] = []

    def write(self, request: str | p4r.WriteRequest) -> None:
        super().write(request)
        assert isinstance(request, p4r.WriteRequest)  # which the readers of files make
        self.writes.append(request)

    def run_file(self, lines: list[str], name: str) -> None:
        super().run_file(lines, name)
        self.writes.append(CommandFile(lines, name))


class NetworkPlan(Network):
    """A network that does not run: its switches have refused what the real ones would refuse."""

    switch_type = PlannedSwitch

    def __init__(self) -> None:
        super().__init__()
        self.host_commands: defaultdict[str, list[str]] = defaultdict(list)

    def __enter__(self) -> NetworkPlan:
        return self

    def add_host_command(self, host: str, command: str) -> None:
        self.host_commands[host].append(command)

    @property
    def planned_switches(self) -> Iterator[PlannedSwitch]:
        for switch in self.switches:
            assert isinstance(switch, PlannedSwitch)
            yield switch

    def switch_interfaces(self) -> dict[str, dict[int, str]]:
        """Return the names of the switches' interfaces, by switch and port."""
        found: dict[str, dict[int, str]] = {switch.name: {} for switch in self.switches}
        for link in self.links:
            for end in link.ends:
                if end.port is not None:
                    found[end.node][end.port] = interface_name(end)
        return found

    def links_of(self, switch: str) -> Iterator[tuple[int, LinkHandle]]:
        """Yield the ports of a switch with their links."""
        for link in self.links:
            for end in link.ends:
                if end.node == switch and end.port is not None:
                    yield end.port, link


def read_plan(file: Path, sources: Path | None = None) -> NetworkPlan:
    """Read a network as `softswitch simulate` does; the caller closes it. Raises `SwitchError`."""
    plan = NetworkPlan()
    try:
        read_network(file, plan, sources)
        _check_names(plan)
    except BaseException:
        plan.close()
        raise
    return plan


def interface_name(end: End) -> str:
    """Return the name of a switch's interface, which is Mininet's."""
    return f"{end.node}-eth{end.port}"


def _check_names(plan: NetworkPlan) -> None:
    for switch, interfaces in plan.switch_interfaces().items():
        for name in interfaces.values():
            if len(name) > MAX_INTERFACE_NAME:
                raise SwitchError(
                    f"switch {switch}: interface {name}: expected at most {MAX_INTERFACE_NAME} characters, "
                    f"got {len(name)}: give the switch a shorter name"
                )


def check_interfaces_are_free(plan: NetworkPlan) -> None:
    """Raise `SwitchError` if this machine has an interface of the network already."""
    existing = {name for _, name in socket.if_nameindex()}
    for switch, interfaces in plan.switch_interfaces().items():
        for name in interfaces.values():
            if name in existing:
                raise SwitchError(
                    f"switch {switch}: interface {name}: expected a free name, and this machine has one: "
                    "another network runs, or `mn -c` removes what one has left"
                )
