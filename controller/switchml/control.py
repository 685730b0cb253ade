"""The rows of a run with SwitchML: routes, the workers of each job, and a multicast group for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.routes import routes
from controller.switchml.tables import Member, Receiver
from controller.tables import Group, Replica, Settings
from foundation.designs.interface import Arm, Control, Hosts
from foundation.designs.switchml import settings_of
from foundation.errors import HotlineError
from foundation.protocol import addressing

MOST_WORKERS = 32
"""A bit each."""


def _rows(hosts: Hosts, arms: Sequence[Arm], _epoch: int) -> list[Settings]:
    if hosts.workers > MOST_WORKERS:
        raise HotlineError(f"switchml: {hosts.workers} workers; a slot has a bit for each of {MOST_WORKERS}")
    return [*routes(hosts), *(row for number, arm in enumerate(arms) for row in _job(hosts, number, arm))]


def _job(hosts: Hosts, number: int, arm: Arm) -> Iterator[Settings]:
    """A job's; `number` is its number among those of the switch."""
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


CONTROL = Control(_rows)
