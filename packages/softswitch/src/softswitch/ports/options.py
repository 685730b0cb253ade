"""Options that the ports of a switch have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from softswitch.errors import PortError
from softswitch.ports.impairment import Direction, Impairment
from softswitch.ports.layout import MAX_PORTS
from softswitch.ports.netlink import find_index
from softswitch.queues.shape import Shape
from softswitch.v1model import PORT_NUMBERS


@dataclass(frozen=True)
class PortOptions:
    cpu_port: int | None = None
    impairments: Mapping[tuple[int, Direction], Impairment] = field(default_factory=dict)
    busy_poll: bool = False
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    """Rate and depth of each port's queues before egress; by default 64 packets and no rate limit."""
    priority_queues: int = 1
    pcap: Path | None = None
    """Folder for pcap files of all frames."""

    def check(self, ports: Mapping[int, str]) -> None:
        """Raise PortError unless the options suit the ports, which are given with their interfaces."""
        cpu_port = self.cpu_port
        numbers = [*ports, *([] if cpu_port is None else [cpu_port])]
        for number in numbers:
            if not 0 <= number < PORT_NUMBERS:
                raise PortError(f"port {number}: port numbers go from 0 to {PORT_NUMBERS - 1}")
        if len(numbers) > MAX_PORTS:
            raise PortError(
                f"{len(numbers)} ports: this switch has {MAX_PORTS} at most, the CPU port included"
            )
        if cpu_port is not None and cpu_port in ports:
            raise PortError(
                f"port {cpu_port} is the CPU port and cannot be interface {ports[cpu_port]!r} too"
            )
        _check_interfaces(ports)
        for number, direction in self.impairments:
            if number not in numbers:
                raise PortError(
                    f"impairment of port {number} ({direction.value}): the switch has no such port"
                )
        for number in self.shapes:
            if number not in numbers:
                raise PortError(f"rate or queue of port {number}: the switch has no such port")


def _check_interfaces(ports: Mapping[int, str]) -> None:
    """Raise PortError if an interface is that of two ports, each of which would receive all its frames."""
    port_by_interface: dict[int | str, int] = {}
    for port, name in ports.items():
        # Alternative names of an interface share its index.
        other_port = port_by_interface.setdefault(find_index(name) or name, port)
        if other_port != port:
            names = " and ".join(dict.fromkeys(repr(ports[number]) for number in (other_port, port)))
            raise PortError(
                f"ports {other_port} and {port} have one interface, {names}: each port needs its own"
            )
