"""Build and remove a machine's interfaces: in namespaces of the run, or named after the switch's ports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from foundation.protocol import addressing
from hotline_machines.errors import MachinesError
from hotline_machines.supervisor.cables import lend_cable
from hotline_machines.supervisor.command import run_command
from hotline_machines.supervisor.remains import NAMESPACES
from hotline_machines.wiring import (
    LARGEST_PACKET,
    VXLAN_BYTES,
    HostWiring,
    PortWiring,
    Tunnel,
)
from topologies import routes
from topologies.neighbours import list_endpoints, neighbour_commands, without_ipv6


def build_host(host: HostWiring, workers: int, servers: int) -> None:
    """Make a host's interface with its addresses and neighbours, and the namespace that it is in, if any."""
    namespace, interface = host.namespace, host.interface
    in_namespace: list[str] = []
    enter: list[str] = []
    if namespace is not None:
        _ip("netns", "add", namespace)
        in_namespace, enter = ["netns", namespace], ["nsenter", f"--net={NAMESPACES / namespace}"]
    common = ["link", "add", interface, *in_namespace, "address", host.endpoint.mac]
    if host.tunnel is not None:
        _ip(*common, "mtu", str(_inner_mtu(host.tunnel)), *_vxlan(host.tunnel))
    elif host.cable is not None:
        _check_cable(host.cable)
        _check_unused(host.cable)
        if namespace is None:
            _ip("link", "add", "link", host.cable, *common[2:], "type", "macvlan", "mode", "private")
        else:
            # An interface above the cable's would cost CPU time for each packet.
            lend_cable(host.cable, namespace, interface, host.endpoint.mac)
    else:
        _ip(*common, "type", "veth", "peer", "name", host.port_interface)
        _bring_up_port(host.port_interface)
    run_command(*enter, "sysctl", "-qw", without_ipv6(interface, namespace is not None))
    # The switch forwards frames unchanged, so their checksums must be complete.
    run_command(*enter, "ethtool", "-K", interface, "tx", "off")
    address = f"{host.endpoint.address}/{addressing.PREFIX_LENGTH}"
    own = [] if namespace is None else ["link set lo up", f"address add {address} dev {interface}"]
    neighbours = neighbour_commands(list_endpoints(workers, servers), host.endpoint.address, interface)
    _batch(namespace, [*own, f"link set {interface} up", *neighbours])
    if namespace is None:
        routes.add(host.endpoint.address, address, interface)


def build_port(port: PortWiring) -> None:
    """Make a port of the switch, of which the other end is on another machine."""
    if port.cable is not None:
        _check_cable(port.cable)
        _check_unused(port.cable)
        return
    assert port.tunnel is not None, "a port without a tunnel or cable is made with its host"
    _ip("link", "add", port.interface, "mtu", str(_inner_mtu(port.tunnel)), *_vxlan(port.tunnel))
    _bring_up_port(port.interface)


def move_port(port: PortWiring) -> None:
    """Connect an existing port to another machine."""
    assert port.tunnel is not None, "only tunnels can be moved"
    _ip("link", "set", port.interface, "type", "vxlan", "remote", port.tunnel.remote)


def _vxlan(tunnel: Tunnel) -> list[str]:
    return [
        "type", "vxlan", "id", str(tunnel.vni), "local", tunnel.local, "remote", tunnel.remote,
        "dstport", str(tunnel.udp_port), "nolearning",
    ]  # fmt: skip


def _inner_mtu(tunnel: Tunnel) -> int:
    """Return the MTU of a tunnel's interface; raise `MachinesError` if it does not fit a run's packets."""
    interface = _interface_towards(tunnel.remote)
    mtu = int(Path("/sys/class/net", interface, "mtu").read_text())
    if mtu < LARGEST_PACKET + VXLAN_BYTES:
        raise MachinesError(
            f"interface {interface} towards {tunnel.remote}: expected an MTU of at least "
            f"{LARGEST_PACKET + VXLAN_BYTES} bytes, {VXLAN_BYTES} of them for VXLAN, got {mtu}"
        )
    return mtu - VXLAN_BYTES


def _interface_towards(address: str) -> str:
    routes = json.loads(run_command("ip", "-json", "route", "get", address))
    return str(routes[0]["dev"])


def _bring_up_port(interface: str) -> None:
    run_command("sysctl", "-qw", f"net.ipv6.conf.{interface}.disable_ipv6=1")
    _ip("link", "set", interface, "up")


def _check_cable(interface: str) -> None:
    flags = Path("/sys/class/net", interface, "flags")
    if not flags.exists():
        names = ", ".join(sorted(path.name for path in Path("/sys/class/net").iterdir()))
        raise MachinesError(f"wiring.cables: expected one of the interfaces {names}, got {interface}")
    if not int(flags.read_text(), 16) & 1:
        raise MachinesError(
            f"wiring.cables: expected an interface that is up, got {interface}, which is down; `ip link set "
            f"{interface} up` sets it up"
        )


def _check_unused(interface: str) -> None:
    found = json.loads(run_command("ip", "-json", "address", "show", "dev", interface))
    addresses = [
        each["local"] for link in found for each in link.get("addr_info", []) if each["scope"] == "global"
    ]
    if addresses:
        raise MachinesError(
            "wiring.cables: expected an interface without an address, since the run takes all of its frames, "
            f"got {interface} with {addresses[0]}"
        )


def _batch(namespace: str | None, lines: Sequence[str]) -> None:
    options = [] if namespace is None else ["-netns", namespace]
    run_command("ip", *options, "-batch", "-", text="\n".join(lines) + "\n")


def _ip(*arguments: str) -> None:
    run_command("ip", *arguments)
