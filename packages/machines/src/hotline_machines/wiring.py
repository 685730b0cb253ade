"""How each host is connected to the switch: what its machine and the switch's machine have to build."""

from __future__ import annotations

from typing import NamedTuple

from experiment.run_config import Config
from foundation.protocol import addressing
from foundation.protocol.addressing import Endpoint
from hotline_machines.supervisor.remains import NAMESPACE_PREFIX

VXLAN_BYTES = 50
"""Bytes that VXLAN adds to an IP packet: headers of IPv4, UDP, VXLAN and the inner Ethernet."""
LARGEST_PACKET = 1450
"""Bytes of the largest IP packet of a run, an answer to a controller's command; it must not be fragmented."""


class Tunnel(NamedTuple):
    """One end of a VXLAN between a host and its port of the switch."""

    vni: int
    udp_port: int
    local: str  # IPv4 address of this machine
    remote: str


class HostWiring(NamedTuple):
    """The interface of a host: a tunnel, one end of a pair on the switch's machine, or above a cable's."""

    name: str
    endpoint: Endpoint
    port: int  # of the switch
    tunnel: Tunnel | None
    cable: str | None
    has_namespace: bool = True
    """Whether the host has a network namespace of its own, or else its interface is the machine's."""

    @property
    def namespace(self) -> str | None:
        return f"{NAMESPACE_PREFIX}{self.name}" if self.has_namespace else None

    @property
    def interface(self) -> str:
        return host_interface(self.name)

    @property
    def port_interface(self) -> str:
        """The other end of a pair on the switch's machine."""
        return addressing.interface(self.port)


class PortWiring(NamedTuple):
    """A port of the switch on its machine."""

    port: int
    tunnel: Tunnel | None
    cable: str | None

    @property
    def interface(self) -> str:
        return self.cable or addressing.interface(self.port)


class WiredHost(NamedTuple):
    host: HostWiring
    port: PortWiring | None  # None for a host on the switch's machine: its wiring makes both ends


def host_interface(host: str) -> str:
    return f"{host}-eth0"


def port_of(host: str, workers: int) -> int:
    number = int(host[1:])
    return addressing.worker_port(number) if host.startswith("w") else addressing.server_port(workers, number)


def endpoint_of(host: str) -> Endpoint:
    number = int(host[1:])
    return addressing.worker(number) if host.startswith("w") else addressing.server(number)


def wire(
    config: Config,
    host: str,
    address: str,
    switch_address: str,
    is_on_switch: bool,
    has_namespace: bool = True,
) -> WiredHost:
    """Return the wiring of a host on the machine with an IPv4 address to the switch's machine."""
    port, endpoint = port_of(host, config.workers), endpoint_of(host)
    wiring = config.wiring
    unconnected = HostWiring(host, endpoint, port, None, None, has_namespace)
    if wiring.underlay == "direct":
        cable, switch_cable = (wiring.cables or {})[host]
        return WiredHost(unconnected._replace(cable=cable), PortWiring(port, None, switch_cable))
    if is_on_switch:
        return WiredHost(unconnected, None)
    vni = wiring.vni + port
    return WiredHost(
        unconnected._replace(tunnel=Tunnel(vni, wiring.udp_port, address, switch_address)),
        PortWiring(port, Tunnel(vni, wiring.udp_port, switch_address, address), None),
    )
