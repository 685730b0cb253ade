"""SwitchML's tables as typed rows, and the rows of a run: routes, and each job's workers and group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.controller import Controller
from controller.forwarding import multicast_group, receiver_of, receivers, routes
from controller.tables import InitialRow, Ipv4, TableRow
from foundation.designs.interface import Arm, ControllerOps, SwitchHosts
from foundation.errors import HotlineError
from foundation.protocol import addressing
from hotline_allreduce.switchml.design import settings_of

MAX_WORKERS = 32
"""Maximum number of workers of a job: each has a bit in a slot's 32-bit set."""


@dataclass(frozen=True, slots=True)
class MemberRow(TableRow):
    """Table `workers`: a worker of a job, identified by the addresses of its packets."""

    TABLES = ("identify.workers",)
    ACTION = "identify.set_worker"
    MATCH_FIELDS = 3
    src_addr: Ipv4
    dst_addr: Ipv4
    src_port: int
    receiver: int  # number of the worker among the receivers of all jobs (`receiver_of`)
    group: int  # multicast group of the job
    worker: int
    """Bit of the worker in a slot's set."""
    worker_count: int
    filter_stale: bool
    slot_timeout: int
    """Timeout of a slot in µs; 0 disables it."""


def _rows(hosts: SwitchHosts, arms: Sequence[Arm], _epoch: int) -> list[InitialRow]:
    if hosts.workers > MAX_WORKERS:
        raise HotlineError(f"{arms[0].design}: expected at most {MAX_WORKERS} workers, got {hosts.workers}")
    return [
        *routes(hosts),
        *(row for number, arm in enumerate(arms) for row in _member_rows(hosts, number, arm)),
    ]


def _member_rows(hosts: SwitchHosts, job_number: int, arm: Arm) -> Iterator[InitialRow]:
    settings = settings_of(arm)
    for worker in range(hosts.workers):
        yield MemberRow(
            src_addr=addressing.worker(hosts.worker(worker + 1, job_number)).address,
            dst_addr=addressing.service(hosts.server(1, job_number)).address,
            src_port=addressing.worker_udp_port(arm.job),
            receiver=receiver_of(hosts, job_number, worker),
            group=multicast_group(job_number),
            worker=1 << worker,
            worker_count=hosts.workers,
            filter_stale=settings.check,
            slot_timeout=settings.slot_timeout_us,
        )
    yield from receivers(hosts, job_number)


CONTROL: ControllerOps[Controller, InitialRow] = ControllerOps(_rows)
