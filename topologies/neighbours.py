"""The endpoints of a run's network, and what its hosts know of it: all is set, and nothing is learned."""

from __future__ import annotations

from collections.abc import Iterable

from foundation.protocol import addressing
from foundation.protocol.addressing import Endpoint


def list_endpoints(workers: int, servers: int) -> list[Endpoint]:
    return [
        *(addressing.worker(number) for number in range(1, workers + 1)),
        *(addressing.server(number) for number in range(1, servers + 1)),
        *(addressing.service(number) for number in range(1, servers + 1)),
        addressing.controller(),
    ]


def neighbour_commands(endpoints: Iterable[Endpoint], own_address: str, interface: str) -> list[str]:
    """Return lines for `ip -batch` with an entry for each endpoint, since the switch answers no ARP."""
    return [
        f"neigh replace {each.address} lladdr {each.mac} nud permanent dev {interface}"
        for each in endpoints
        if each.address != own_address
    ]


def without_ipv6(interface: str, is_in_namespace: bool) -> str:
    """Return the setting for `sysctl` by which a host takes no router advertisement, which any host can send.

    In the root namespace, the machine may use IPv6 on its other interfaces. No setting is needed against
    ICMP redirects, since hosts have no gateways: the kernel redirects only routes that have one.
    """
    return f"net.ipv6.conf.{'all' if is_in_namespace else interface}.disable_ipv6=1"
