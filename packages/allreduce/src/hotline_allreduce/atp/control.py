"""ATP's tables as typed rows, and the rows of a run: routes, and each job's settings, servers and workers.

In a network of switches, the leaf of a worker is the first level, and the leaf of the server is the second,
the root. The root counts its own workers as it counts other leaves. What would count a single child passes
packets on, as spines do: a cell saves nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from controller.controller import Controller
from controller.forwarding import ReceiverRow, multicast_group, receivers, routes
from controller.tables import GroupRow, InitialRow, Route, TableRow
from foundation.designs.interface import LOCKSTEP_WORKERS, Arm, ControllerOps, SwitchHosts
from foundation.errors import HotlineError
from foundation.protocol.leaf_spine import LeafSpine, host_at
from hotline_allreduce.atp.design import settings_of

MAX_SERVERS = 4
"""Maximum number of servers of a job: a packet has two bits for the server's number."""
_OF_LEAF = 1 << 15
"""Added to a job's multicast group: the group of a leaf's own workers."""


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


@dataclass(frozen=True, slots=True)
class AtpLevel(TableRow):
    """Table `levels`: a switch that aggregates the packets to a server, as one level of two."""

    TABLES = ("identify.levels",)
    ACTION = "identify.set_level"
    MATCH_FIELDS = 2
    app: int
    server: int
    children: int
    is_root: int


@dataclass(frozen=True, slots=True)
class AtpPassage(TableRow):
    """Table `levels`: a switch that passes on the packets to and from a server."""

    TABLES = ("identify.levels",)
    ACTION = "identify.pass_on"
    MATCH_FIELDS = 2
    app: int
    server: int


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


def _network_rows(rows: Sequence[InitialRow], network: LeafSpine, switch: int) -> list[InitialRow]:
    return list(dict.fromkeys(row for each in rows for row in _rows_at(each, network, switch)))


def _rows_at(row: InitialRow, network: LeafSpine, switch: int) -> Iterator[InitialRow]:
    if isinstance(row, Route):
        yield replace(row, port=network.toward_host(switch, host_at(row.port)))
    elif isinstance(row, AckGroup):
        yield from _level_rows(row, network, switch)
    elif isinstance(row, GroupRow):
        if not network.is_spine(switch):
            yield from _group_rows(row, network, switch)
    elif not (isinstance(row, ReceiverRow) and network.is_spine(switch)):
        yield row


def _level_rows(row: AckGroup, network: LeafSpine, switch: int) -> Iterator[InitialRow]:
    """Yield the rows for a server, whose row `row` is at a single switch."""
    host = host_at(row.ingress_port)
    root, server = network.leaf_of(host), host - network.workers - 1
    children = 0 if network.is_spine(switch) else len(_workers_of(network, switch))
    if switch == root:
        children += len(_leaves_with_workers(network) - {root})
    if children < 2:
        yield AtpPassage(row.app, server)
        return
    yield AtpLevel(row.app, server, children, is_root=switch == root)
    if switch == root:
        yield row
    else:
        # From the root, by any spine.
        for spine in range(network.spines):
            yield AckGroup(row.app, network.uplink(spine), row.group | _OF_LEAF)


def _group_rows(row: GroupRow, network: LeafSpine, switch: int) -> Iterator[GroupRow]:
    """Yield the groups of a leaf: as the root, where one worker stands for each other leaf, and its own."""
    first_workers = {network.leaf_of(worker): worker for worker in range(network.workers, 0, -1)}
    own = [each for each in row.replicas if network.leaf_of(host_at(each.port)) == switch]
    others = [
        each._replace(port=network.toward_host(switch, host_at(each.port)))
        for each in row.replicas
        if host_at(each.port) in first_workers.values() and each not in own
    ]
    yield GroupRow(row.group, (*own, *others))
    yield GroupRow(row.group | _OF_LEAF, tuple(own))


def _workers_of(network: LeafSpine, leaf: int) -> list[int]:
    return [worker for worker in range(1, network.workers + 1) if network.leaf_of(worker) == leaf]


def _leaves_with_workers(network: LeafSpine) -> set[int]:
    return {network.leaf_of(worker) for worker in range(1, network.workers + 1)}


CONTROL: ControllerOps[Controller, InitialRow] = ControllerOps(_rows, network_rows=_network_rows)
