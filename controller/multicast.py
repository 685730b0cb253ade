"""Multicasts to the workers of a job: the group, and the address of each receiver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.tables import Group, Ipv4, Mac, Replica, Row, Settings
from foundation.designs.interface import Hosts
from foundation.protocol import addressing


@dataclass(frozen=True, slots=True)
class Receiver(Row):
    """Table `receivers`: the address to which the multicasts for a worker go."""

    TABLES = ("receivers",)
    ACTION = "set_receiver"
    CONTROL = "HotlineEgress."
    receiver: int
    mac: Mac
    addr: Ipv4


def group_of(number: int) -> int:
    return number + 1


def receiver_of(hosts: Hosts, number: int, worker: int) -> int:
    """Return the receiver number of a worker, which counts from 0, in job `number`."""
    return number * hosts.workers + worker + 1


def receivers(hosts: Hosts, number: int) -> Iterator[Settings]:
    replicas = []
    for worker in range(hosts.workers):
        place, receiver = hosts.worker(worker + 1, number), receiver_of(hosts, number, worker)
        host = addressing.worker(place)
        yield Receiver(receiver, host.mac, host.address)
        replicas.append(Replica(hosts.worker_port(place), receiver))
    yield Group(group_of(number), tuple(replicas))
