"""Give the switch its pipeline, and every job its rows; then leave the primary role to others."""

from __future__ import annotations

from collections.abc import Iterator

from controller import Controller, Job, Route, Server, Worker
from controller.tables import KIND_PRIVILEGED
from protocol import addressing
from protocol.header import HOTLINE_PORT, PS_CALLER_BASE, PS_RPC_PORT
from topologies.config import JOBS, OFFLOADED, Config

EPOCH = 1
"""Epoch of every caller: a run starts with a fresh switch."""

_PROXIED = {"proxy", "both"}


async def provision(address: str, config: Config) -> None:
    """Commit the pipeline and install routes, jobs, servers and callers."""
    async with Controller(address) as controller:
        await controller.commit_pipeline()
        await controller.install(*rows(config))


def rows(config: Config) -> list[Route | Server | Job | Worker]:
    """All rows of a run, before any hot set."""
    return [*_routes(config), *_jobs(config), *_callers(config)]


def is_proxied(arm: str) -> bool:
    """Whether the switch is the connection proxy of this arm."""
    return arm in _PROXIED


def is_offloaded(arm: str) -> bool:
    """Whether this arm has a hot set in the switch."""
    return arm in OFFLOADED


def _routes(config: Config) -> Iterator[Route]:
    for number in range(1, config.workers + 1):
        yield Route(addressing.worker(number).mac, addressing.worker_port(number))
    for number in range(1, config.servers + 1):
        yield Route(addressing.server(number).mac, addressing.server_port(config.workers, number))


def _jobs(config: Config) -> Iterator[Job | Server]:
    for arm, job in JOBS.items():
        for number in range(1, config.servers + 1):
            host, service = addressing.server(number), addressing.service(number)
            yield Server(
                job=job,
                ps=number - 1,
                mac=host.mac,
                addr=host.address,
                udp_port=HOTLINE_PORT,
                port=addressing.server_port(config.workers, number),
                service_mac=service.mac,
                service_addr=service.address,
                service_port=HOTLINE_PORT,
            )
        yield Job(job, offload=is_offloaded(arm), proxy=is_proxied(arm))


def _callers(config: Config) -> Iterator[Worker]:
    """Workers, and the parameter servers as privileged callers; each has a row of its own."""
    row = 0
    for job in JOBS.values():
        for number in range(1, config.workers + 1):
            host = addressing.worker(number)
            yield Worker(
                job=job,
                worker=number,
                epoch=EPOCH,
                row=row,
                mac=host.mac,
                addr=host.address,
                udp_port=addressing.worker_udp_port(job),
                port=addressing.worker_port(number),
            )
            row += 1
        for number in range(1, config.servers + 1):
            host = addressing.server(number)
            yield Worker(
                job=job,
                worker=PS_CALLER_BASE + number - 1,
                epoch=EPOCH,
                row=row,
                mac=host.mac,
                addr=host.address,
                udp_port=PS_RPC_PORT,
                port=addressing.server_port(config.workers, number),
                kind=KIND_PRIVILEGED,
            )
            row += 1
