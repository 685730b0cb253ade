"""Give the switch its pipeline, and every job its rows; then leave the primary role to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.controller import Controller
from controller.tables import KIND_PRIVILEGED, Job, Route, Server, Worker
from protocol import addressing
from protocol.arms import ARMS, Arm
from protocol.header import HOTLINE_PORT, PS_CALLER_BASE, PS_RPC_PORT
from topologies.config import EPOCH, Config


async def provision(address: str, config: Config) -> None:
    """Commit the pipeline and install routes, jobs, servers and callers."""
    async with Controller(address, undisturbed=True) as controller:
        await controller.commit_pipeline()
        await controller.install(*rows(config))


def rows(
    config: Config, arms: Sequence[Arm] = ARMS, epoch: int = EPOCH
) -> list[Route | Server | Job | Worker]:
    """All rows of a run of these arms, before any hot set."""
    return [*_routes(config), *_jobs(config, arms), *_callers(config, arms, epoch)]


def _routes(config: Config) -> Iterator[Route]:
    for number in range(1, config.workers + 1):
        yield Route(addressing.worker(number).mac, _worker_port(config, number))
    for number in range(1, config.servers + 1):
        yield Route(addressing.server(number).mac, _server_port(config, number))


def _jobs(config: Config, arms: Sequence[Arm]) -> Iterator[Job | Server]:
    for arm in arms:
        for number in range(1, config.servers + 1):
            host, service = addressing.server(number), addressing.service(number)
            yield Server(
                job=arm.job,
                ps=number - 1,
                mac=host.mac,
                addr=host.address,
                udp_port=HOTLINE_PORT,
                port=_server_port(config, number),
                service_mac=service.mac,
                service_addr=service.address,
                service_port=HOTLINE_PORT,
            )
        yield Job(arm.job, offload=arm.offloaded, proxy=arm.proxied)


def _callers(config: Config, arms: Sequence[Arm], epoch: int) -> Iterator[Worker]:
    """Workers, and the parameter servers as privileged callers; each has a row of its own."""
    row = 0
    for arm in arms:
        for number in range(1, config.workers + 1):
            host = addressing.worker(number)
            yield Worker(
                job=arm.job,
                worker=number,
                epoch=epoch,
                row=row,
                mac=host.mac,
                addr=host.address,
                udp_port=addressing.worker_udp_port(arm.job),
                port=_worker_port(config, number),
            )
            row += 1
        for number in range(1, config.servers + 1):
            host = addressing.server(number)
            yield Worker(
                job=arm.job,
                worker=PS_CALLER_BASE + number - 1,
                epoch=epoch,
                row=row,
                mac=host.mac,
                addr=host.address,
                udp_port=PS_RPC_PORT,
                port=_server_port(config, number),
                kind=KIND_PRIVILEGED,
            )
            row += 1


def _worker_port(config: Config, number: int) -> int:
    return addressing.worker_port(number, config.workers_at_a_port)


def _server_port(config: Config, number: int) -> int:
    return addressing.server_port(config.workers, number, config.workers_at_a_port)
