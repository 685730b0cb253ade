"""The rows of a run with servers only."""

from __future__ import annotations

from collections.abc import Iterator

from controller.controller import Controller
from controller.tables import Route, Settings
from foundation.designs.interface import Arm, Control, Hosts
from foundation.protocol import addressing


def routes(hosts: Hosts) -> Iterator[Route]:
    """A port for each host."""
    for number in range(1, hosts.workers + 1):
        yield Route(addressing.worker(number).mac, hosts.worker_port(number))
    for number in range(1, hosts.servers + 1):
        yield Route(addressing.server(number).mac, hosts.server_port(number))


def _rows(hosts: Hosts, _jobs: object, _epoch: int) -> list[Settings]:
    return list(routes(hosts))


async def _is_changed(_controller: Controller, _arm: Arm) -> bool:
    return False


async def _held(_controller: Controller, _arm: Arm) -> dict[int, int]:
    return {}


async def _overflows(_controller: Controller) -> int:
    return 0


CONTROL = Control(_rows, _is_changed, _held, _overflows)
