"""ATP's tables as typed rows, and the rows of a run: routes, and each job's settings, servers and workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.controller import Controller
from controller.forwarding import multicast_group, receivers, routes
from controller.tables import InitialRow, TableRow
from foundation.designs.interface import LOCKSTEP_WORKERS, Arm, ControllerOps, SwitchHosts
from foundation.errors import HotlineError
from hotline_allreduce.atp.design import settings_of

MAX_SERVERS = 4
"""Maximum number of servers of a job: a packet has two bits for the server's number."""


@dataclass(frozen=True, slots=True)
class AtpJob(TableRow):
    """Table `jobs`: a job whose packets the switch aggregates."""

    TABLES = ("identify.jobs",)
    ACTION = "identify.set_job"
    app: int
    check_tensor: bool
    ecn_depth: int
    """Queue length, in packets, from which on the switch marks packets (ECN)."""


@dataclass(frozen=True, slots=True)
class AckGroup(TableRow):
    """Table `groups`: the multicast group of acknowledgements from a server's port."""

    TABLES = ("next_step.groups",)
    ACTION = "next_step.set_group"
    MATCH_FIELDS = 2
    app: int
    ingress_port: int
    group: int


def _rows(hosts: SwitchHosts, arms: Sequence[Arm], _epoch: int) -> list[InitialRow]:
    minimum, maximum = LOCKSTEP_WORKERS
    if not minimum <= hosts.workers <= maximum:
        raise HotlineError(f"atp: expected {minimum} to {maximum} workers, got {hosts.workers}")
    if hosts.servers > MAX_SERVERS:
        raise HotlineError(f"atp: expected at most {MAX_SERVERS} servers, got {hosts.servers}")
    return [*routes(hosts), *(row for number, arm in enumerate(arms) for row in job_rows(hosts, number, arm))]


def job_rows(hosts: SwitchHosts, job_number: int, arm: Arm) -> Iterator[InitialRow]:
    settings = settings_of(arm)
    yield AtpJob(arm.job, settings.check, settings.ecn_depth)
    for server in range(1, hosts.servers + 1):
        yield AckGroup(
            arm.job, hosts.server_port(hosts.server(server, job_number)), multicast_group(job_number)
        )
    yield from receivers(hosts, job_number)


CONTROL: ControllerOps[Controller, InitialRow] = ControllerOps(_rows)
