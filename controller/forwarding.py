"""Routes to all hosts, multicasts to workers, and the controller's part of designs that only forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.controller import Controller
from controller.tables import GroupRow, InitialRow, Ipv4, Mac, Replica, Route, TableRow
from foundation.designs.interface import ControllerOps, SwitchHosts
from foundation.protocol import addressing


def routes(hosts: SwitchHosts) -> Iterator[Route]:
    for number in range(1, hosts.all_workers + 1):
        yield Route(addressing.worker(number).mac, hosts.worker_port(number))
    for number in range(1, hosts.all_servers + 1):
        yield Route(addressing.server(number).mac, hosts.server_port(number))


@dataclass(frozen=True, slots=True)
class ReceiverRow(TableRow):
    """Table `receivers`: the address to which the multicasts for a worker go."""

    TABLES = ("receivers",)
    ACTION = "set_receiver"
    CONTROL = "HotlineEgress."
    receiver: int
    mac: Mac
    addr: Ipv4


def multicast_group(job_number: int) -> int:
    return job_number + 1  # in a packet's metadata 0 means no multicast


def receiver_of(hosts: SwitchHosts, job_number: int, worker: int) -> int:
    """Return the receiver number of worker `worker` (from 0) of job `job_number` (from 0)."""
    return job_number * hosts.workers + worker + 1


def receivers(hosts: SwitchHosts, job_number: int) -> Iterator[InitialRow]:
    replicas = []
    for worker in range(hosts.workers):
        global_worker, receiver = hosts.worker(worker + 1, job_number), receiver_of(hosts, job_number, worker)
        host = addressing.worker(global_worker)
        yield ReceiverRow(receiver, host.mac, host.address)
        replicas.append(Replica(hosts.worker_port(global_worker), receiver))
    yield GroupRow(multicast_group(job_number), tuple(replicas))


def _rows(hosts: SwitchHosts, _arms: object, _epoch: int) -> list[InitialRow]:
    return list(routes(hosts))


CONTROL: ControllerOps[Controller, InitialRow] = ControllerOps(_rows)
