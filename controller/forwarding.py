"""Routes to all hosts, and the controller's part of designs whose switch only forwards."""

from __future__ import annotations

from collections.abc import Iterator

from controller.controller import Controller
from controller.tables import InitialRow, Route
from foundation.designs.interface import ControllerOps, Hosts
from foundation.protocol import addressing


def routes(hosts: Hosts) -> Iterator[Route]:
    for number in range(1, hosts.all_workers + 1):
        yield Route(addressing.worker(number).mac, hosts.worker_port(number))
    for number in range(1, hosts.all_servers + 1):
        yield Route(addressing.server(number).mac, hosts.server_port(number))


def _rows(hosts: Hosts, _arms: object, _epoch: int) -> list[InitialRow]:
    return list(routes(hosts))


CONTROL: ControllerOps[Controller, InitialRow] = ControllerOps(_rows)
