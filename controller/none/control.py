"""The rows of a run with servers only."""

from __future__ import annotations

from collections.abc import Iterator

from controller.tables import Route, Settings
from designs.interface import Control, Hosts
from protocol import addressing


def routes(hosts: Hosts) -> Iterator[Route]:
    """A port for each host."""
    for number in range(1, hosts.workers + 1):
        yield Route(addressing.worker(number).mac, hosts.worker_port(number))
    for number in range(1, hosts.servers + 1):
        yield Route(addressing.server(number).mac, hosts.server_port(number))


def _rows(hosts: Hosts, _jobs: object, _epoch: int) -> list[Settings]:
    return list(routes(hosts))


CONTROL = Control(_rows)
