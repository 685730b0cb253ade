"""The endpoints of a run's network, and the static neighbour entries by which its hosts find them."""

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
