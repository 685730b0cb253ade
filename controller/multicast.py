"""Multicasts to the workers of a job: the group, and the address of each receiver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.tables import Group, InitialRow, Ipv4, Mac, Replica, Row
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


def multicast_group(job_number: int) -> int:
    return job_number + 1  # in a packet's metadata 0 means no multicast


def receiver_of(hosts: Hosts, job_number: int, worker: int) -> int:
    """Return the receiver number of worker `worker` (from 0) of job `job_number` (from 0)."""
    return job_number * hosts.workers + worker + 1


def receivers(hosts: Hosts, job_number: int) -> Iterator[InitialRow]:
    replicas = []
    for worker in range(hosts.workers):
        global_worker, receiver = hosts.worker(worker + 1, job_number), receiver_of(hosts, job_number, worker)
        host = addressing.worker(global_worker)
        yield Receiver(receiver, host.mac, host.address)
        replicas.append(Replica(hosts.worker_port(global_worker), receiver))
    yield Group(multicast_group(job_number), tuple(replicas))
