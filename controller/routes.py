"""The routes that a run has in every design: by them whatever is not a design's own is forwarded."""

from __future__ import annotations

from collections.abc import Iterator

from controller.tables import Route
from foundation.designs.interface import Hosts
from foundation.protocol import addressing


def routes(hosts: Hosts) -> Iterator[Route]:
    """A port for each host."""
    for number in range(1, hosts.workers + 1):
        yield Route(addressing.worker(number).mac, hosts.worker_port(number))
    for number in range(1, hosts.servers + 1):
        yield Route(addressing.server(number).mac, hosts.server_port(number))
