"""All agents of a run: what each is told at its start, and that none outlives the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from controller.controller import Controller
from experiment.config import EPOCH, Config
from experiment.health import Health
from experiment.rows import rows
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT, VERSION
from hosts.keys import KeySpace
from hosts.model.hyperparameters import Hyperparameters
from hosts.workload.trace import Trace
from topologies.agents import Agent, Answer, command_in
from topologies.placement import Placement, cpu_of

if TYPE_CHECKING:  # it needs Mininet, and this does not
    from topologies.network import Network


async def provision(address: str, config: Config, arms: Sequence[Arm] | None = None) -> None:
    """Commit the pipeline and install the rows of the design, for these arms or for all."""
    async with Controller(address, undisturbed=True, design=config.design) as controller:
        await controller.commit_pipeline()
        await controller.install(*rows(config, arms))


@dataclass(frozen=True, slots=True)
class Fleet:
    """Agents that are ready, in order of their numbers."""

    workers: list[Agent]
    servers: list[Agent]

    @property
    def agents(self) -> list[Agent]:
        """All of them."""
        return [*self.workers, *self.servers]


@asynccontextmanager
async def fleet(
    config: Config,
    run: Path,
    placement: Placement,
    net: Network,
    trace: Trace,
    training: Hyperparameters | None,
    collector: Path,
    health: Health,
) -> AsyncIterator[Fleet]:
    """Start all agents and wait until they are ready; at the end they quit, or are made to.

    `training` is None for a trace that trains nothing; `collector` is the log collector's socket; `health` is
    told of deaths.
    """
    started: list[Agent] = []
    logs = run / "logs"
    try:
        await start_servers(started, config, run, placement, net, trace.space, collector, health)
        for number, host in enumerate(net.workers, start=1):
            settings = _worker_config(number, config, run, placement, training)
            started.append(
                await Agent.start(
                    f"worker-{number}", command_in(host.pid, "hosts.worker"), settings, logs, health=health
                )
            )
        for agent in started:
            await agent.ready()
        yield Fleet(workers=started[len(net.servers) :], servers=started[: len(net.servers)])
    finally:
        await asyncio.gather(*(agent.quit() for agent in started))


async def start_servers(
    started: list[Agent], config: Config, run: Path, placement: Placement, net: Network, space: KeySpace,
    collector: Path, health: Health,
) -> None:  # fmt: skip
    """Append a server for each host, as soon as it has been started: whoever has the list ends them."""
    for number, host in enumerate(net.servers, start=1):
        settings = server_config(number, config, run, placement, space, config.every_arm, collector)
        is_durable = config.recovery.durable is not None
        started.append(
            await Agent.start(
                f"ps-{number - 1}",
                command_in(host.pid, "hosts.ps"),
                settings,
                run / "logs",
                is_durable,
                health,
            )
        )


def server_config(
    number: int, config: Config, run: Path, placement: Placement, space: KeySpace, arms: Iterable[Arm],
    collector: Path | None = None,
) -> Answer:  # fmt: skip
    """What a server is told, of a job for each of these arms."""
    service = addressing.service(number)
    kept = {"file": str(run / "parts" / f"ps-{number - 1}.db")}
    durable = {} if config.recovery.durable is None else {"durable": kept}
    sparse = space.sparse is not None
    keys = {"keys": str(run / "trace" / "keys.npy")} if sparse else {"parameters": space.size}
    return {
        **config.of_agents(),
        "wire": VERSION,
        "ps": number - 1,
        "address": addressing.server(number).address,
        "log_dir": str(run / "parts"),
        "collector": None if collector is None else str(collector),
        "n_ps": config.servers,
        "cpu": cpu_of(number, placement.servers),
        **durable,
        **keys,
        "jobs": [{"job": arm.job, "epoch": EPOCH, "connected": not arm.settings.proxies} for arm in arms],
        "service": {"address": service.address, "port": HOTLINE_PORT},
        "servers": [addressing.server(each).address for each in range(1, config.servers + 1)],
        "workers": _workers(config),
    }


def _workers(config: Config) -> list[str]:
    """Addresses of all of them."""
    return [addressing.worker(number).address for number in range(1, config.workers + 1)]


def reached_at(config: Config) -> list[addressing.Endpoint]:
    """Where workers reach each server: the switch's service address, where the design has those."""
    reached = addressing.service if design(config.design).has_services else addressing.server
    return [reached(number) for number in range(1, config.servers + 1)]


def _worker_config(
    number: int, config: Config, run: Path, placement: Placement, training: Hyperparameters | None
) -> Answer:
    services = reached_at(config)
    return {
        **config.of_agents(),
        "wire": VERSION,
        "number": number,
        "address": addressing.worker(number).address,
        "log_dir": str(run / "parts"),
        "n_ps": config.servers,
        "cpu": cpu_of(number, placement.workers),
        "seed": config.seed,
        **({} if training is None else asdict(training)),
        "trace": str(run / "trace"),
        "jobs": [
            {"job": arm.job, "arm": arm.name, "epoch": EPOCH, "udp_port": addressing.worker_udp_port(arm.job)}
            for arm in config.every_arm
        ],
        "services": [
            {"ps": ps, "address": service.address, "port": design(config.design).udp_port}
            for ps, service in enumerate(services)
        ],
        "workers": _workers(config),
    }
