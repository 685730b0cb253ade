"""SwitchML's tables as typed rows, and the rows of a run: routes, and each job's workers and group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.controller import Controller
from controller.forwarding import routes
from controller.tables import Group, Ipv4, Mac, Replica, Row, Settings
from foundation.designs.interface import Arm, ControllerOps, Hosts
from foundation.designs.switchml import settings_of
from foundation.errors import HotlineError
from foundation.protocol import addressing

MAX_WORKERS = 32
"""Workers of a job: each has a bit in a slot's 32-bit set."""


@dataclass(frozen=True, slots=True)
class Member(Row):
    """Table `workers`: a worker of a job, identified by the addresses of its packets."""

    TABLES = ("identify.workers",)
    ACTION = "identify.set_worker"
    MATCHED = 3
    src_addr: Ipv4
    dst_addr: Ipv4
    src_port: int
    receiver: int
    """Number of the worker among those of all jobs, from 1 on."""
    group: int
    """Multicast group of the job's workers."""
    worker: int
    """Bit of the worker in a slot's set."""
    worker_count: int
    filter_stale: bool
    """Whether the switch drops packets of older chunks."""
    slot_timeout: int
    """Timeout of a slot in µs; 0 disables it."""


@dataclass(frozen=True, slots=True)
class Receiver(Row):
    """Table `receivers`: the address to which the results of a worker go."""

    TABLES = ("receivers",)
    ACTION = "set_receiver"
    CONTROL = "HotlineEgress."
    receiver: int
    mac: Mac
    addr: Ipv4


def _rows(hosts: Hosts, arms: Sequence[Arm], _epoch: int) -> list[Settings]:
    if hosts.workers > MAX_WORKERS:
        raise HotlineError(f"switchml: expected at most {MAX_WORKERS} workers, got {hosts.workers}")
    return [*routes(hosts), *(row for number, arm in enumerate(arms) for row in _job(hosts, number, arm))]


def _job(hosts: Hosts, number: int, arm: Arm) -> Iterator[Settings]:
    group, first, settings = number + 1, number * hosts.workers + 1, settings_of(arm)
    replicas = []
    for worker in range(hosts.workers):
        host = addressing.worker(worker + 1)
        yield Member(
            src_addr=host.address,
            dst_addr=addressing.service(1).address,
            src_port=addressing.worker_udp_port(arm.job),
            receiver=first + worker,
            group=group,
            worker=1 << worker,
            worker_count=hosts.workers,
            filter_stale=settings.check,
            slot_timeout=settings.patience_us,
        )
        yield Receiver(first + worker, host.mac, host.address)
        replicas.append(Replica(hosts.worker_port(worker + 1), first + worker))
    yield Group(group, tuple(replicas))


CONTROL: ControllerOps[Controller, Settings] = ControllerOps(_rows)
