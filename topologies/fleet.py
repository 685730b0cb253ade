"""Set up a run's switch, and start its agents with their configurations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from analysis.record import RunRecord
from controller.controller import Controller
from controller.controller_ops import control_of
from controller.network_controller import NetworkController
from controller.tables import JobRow, WorkerRow
from experiment.design_parts import initial_rows
from experiment.liveness import Liveness
from experiment.phases.workload import table_optimisers
from experiment.processes import RunProcesses
from experiment.progress import Reporter
from experiment.run_config import EPOCH, Config
from foundation.checksums import crc32_of
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.logs.collector import COLLECTOR
from foundation.optimisers import TableOptimiser
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT, VERSION
from foundation.protocol.leaf_spine import SPINE, ServerHomes
from foundation.protocol.rows import ONE_VALUE
from hosts.compiled_agents import CompiledAgents, require_compiled_agents
from hosts.keys import KeySpace
from hosts.model.hyperparameters import Hyperparameters
from hosts.replay import SwitchNumbers
from hosts.scapy import SCAPY_SERVER, SCAPY_WORKER, is_scapy_server, is_scapy_worker
from hosts.unreplayed import KEYS_FILE
from hosts.workload.trace import Trace
from topologies.agent_process import Message
from topologies.agents import Agent, Succession
from topologies.cpu_placement import Placement, cpu_of
from topologies.testbed import TestbedNetwork


class RunContext(NamedTuple):
    config: Config
    run: Path
    record: RunRecord
    reporter: Reporter
    placement: Placement
    network: TestbedNetwork
    liveness: Liveness


def _compiled_agents(config: Config) -> CompiledAgents:
    return require_compiled_agents(f"CODEC={config.codec}")


def own_controller(address: str, config: Config, processes: RunProcesses) -> Controller:
    """Return a controller of this run's hot sets, or of those of `hotline up`, whose processes are known.

    If several switches have hot sets, `address` is that of the first switch.
    """
    network = config.leaf_spine
    if network is None or network.homes == [SPINE]:
        return controller_of(address, config, processes)
    homes = [controller_of(config.p4runtime_address(home), config, processes) for home in network.homes]
    return NetworkController(network, homes)


def controller_of(address: str, config: Config, processes: RunProcesses) -> Controller:
    """Return a controller of one switch, which may be one of several with hot sets."""
    return Controller(address, exclusive=True, design=config.design, limits=processes.limit)


async def provision(
    address: str, config: Config, processes: RunProcesses, arms: Sequence[Arm] | None = None
) -> None:
    async with controller_of(address, config, processes) as controller:
        await controller.commit_pipeline()
        await controller.install(*initial_rows(config, arms))


async def provision_other_switches(
    config: Config, processes: RunProcesses, arms: Sequence[Arm] | None = None
) -> None:
    """Give each switch of a network but the first its program and its rows."""
    for switch in range(1, len(config.p4runtime_ports)):
        async with controller_of(config.p4runtime_address(switch), config, processes) as controller:
            await controller.commit_pipeline()
            await controller.install(*initial_rows(config, arms, switch=switch))


def _homes_of(config: Config, worker: int) -> ServerHomes:
    """Return the homes of all PSs for a worker, as indexes of the worker's homes; empty if it has one."""
    network = config.leaf_spine
    if network is None or len(network.homes_of_worker(worker)) == 1:
        return []
    return network.home_indexes


async def set_ranges(
    address: str, config: Config, processes: RunProcesses, arm: Arm, space: KeySpace
) -> None:
    """Tell the switch's controllers the dims of the rows of an arm's keys, if any has more than one value."""
    has_jobs = any(isinstance(row, JobRow) for row in initial_rows(config, [arm]))
    if has_jobs and space.ranges != ONE_VALUE:
        async with own_controller(address, config, processes) as controller:
            await controller.set_ranges(arm.job, space.key_ranges)


async def renew_worker(
    address: str, config: Config, processes: RunProcesses, arm: Arm, number: int, epoch: int
) -> None:
    """Have the switch take RPCs of a worker's new epoch, and no more of its earlier ones."""
    rows = [row for row in initial_rows(config, [arm], epoch) if isinstance(row, WorkerRow)]
    async with own_controller(address, config, processes) as controller:
        await controller.renew_callers([row for row in rows if row.worker == number])


async def publish(address: str, config: Config, processes: RunProcesses, arm: Arm) -> None:
    publish_updates = control_of(design(config.design)).publish
    if publish_updates is not None:
        async with own_controller(address, config, processes) as controller:
            await publish_updates(controller, arm.job)


@asynccontextmanager
async def fleet(
    context: RunContext,
    trace: Trace,
    training: Hyperparameters | None,
    succession: Succession | None = None,
) -> AsyncIterator[tuple[list[Agent], list[Agent]]]:
    """Start agents, yield workers and servers once ready, and end them; `training` makes workers train."""
    workers: list[Agent] = []
    servers: list[Agent] = []
    logs = context.run / "logs"
    await context.network.publish_files(context.run / "trace")
    try:
        await start_servers(servers, context, trace.space, table_optimisers(context.config, training))
        for number, host in enumerate(context.network.workers, start=1):
            settings = worker_config(number, context, training)
            is_scapy = is_scapy_worker(context.config.codec, number)
            module = SCAPY_WORKER if is_scapy else _compiled_agents(context.config).worker
            agent = host.make_agent(
                f"worker-{number}", module, settings, logs, succession=succession, liveness=context.liveness
            )
            workers.append(await agent.start())
        for agent in (*servers, *workers):
            await agent.ready()
        yield workers, servers
    finally:
        await asyncio.gather(*(agent.quit() for agent in (*servers, *workers)))


async def start_servers(
    started_agents: list[Agent], context: RunContext, space: KeySpace, tables: Sequence[TableOptimiser]
) -> None:
    """Start a server on each host. Append each to `started_agents` at once, so that the caller can end it."""
    config, run = context.config, context.run
    is_durable = config.recovery.journal_sync is not None
    for number, host in enumerate(context.network.servers, start=1):
        settings = server_config(
            number, config, run, context.placement, space, config.every_arm, tables, COLLECTOR
        )
        is_scapy = is_scapy_server(config.codec, number)
        module = SCAPY_SERVER if is_scapy else _compiled_agents(config).server
        agent = host.make_agent(
            f"ps-{number - 1}", module, settings, run / "logs", restarts_after_death=is_durable,
            liveness=context.liveness,
        )  # fmt: skip
        started_agents.append(await agent.start())


def server_config(
    number: int, config: Config, run: Path, placement: Placement, space: KeySpace, arms: Iterable[Arm],
    tables: Sequence[TableOptimiser], collector: Path | None = None,
) -> Message:  # fmt: skip
    service = addressing.service(number)
    store = {"file": str(run / "parts" / f"ps-{number - 1}.db")}
    durability = {} if config.recovery.journal_sync is None else {"durable": store}
    return {
        **config.agent_settings(),
        "wire": VERSION,
        "ps": number - 1,
        "address": addressing.server(number).address,
        "log_dir": str(run / "parts"),
        "collector": None if collector is None else str(collector),
        "n_ps": config.servers,
        "homes": 1 if config.leaf_spine is None else config.leaf_spine.homes_of_server,
        "cpu": cpu_of(number, placement.servers),
        **durability,
        **_key_settings(run, space),
        "row_ranges": [list(each) for each in space.ranges],
        "jobs": [{"job": arm.job, "epoch": EPOCH, "connected": not arm.settings.proxies} for arm in arms],
        "service": {"address": service.address, "port": HOTLINE_PORT},
        "servers": [
            addressing.server(server_number).address for server_number in range(1, config.servers + 1)
        ],
        "workers": worker_addresses(config),
        "tables": [table.model_dump(mode="json") for table in tables],
    }


def _key_settings(run: Path, space: KeySpace) -> Message:
    if space.sparse is None:
        return {"parameters": space.size}
    file = run / "trace" / KEYS_FILE
    return {"keys": str(file), "keys_checksum": crc32_of(file)}


def worker_addresses(config: Config) -> list[str]:
    return [addressing.worker(number).address for number in range(1, config.workers + 1)]


def service_endpoints(config: Config) -> list[addressing.Endpoint]:
    """Return each server's endpoint for workers: the switch's service address if the design has services."""
    address_of = addressing.service if design(config.design).has_services else addressing.server
    return [address_of(number) for number in range(1, config.servers + 1)]


def worker_config(
    number: int,
    context: RunContext,
    training: Hyperparameters | None,
    epoch: int = EPOCH,
    previous_epochs: Sequence[int] = (),
    switches: SwitchNumbers | None = None,
) -> Message:
    """Return a worker's configuration; `previous_epochs` are those of killed ones whose rank it takes."""
    config, run, placement = context.config, context.run, context.placement
    services, homes = service_endpoints(config), _homes_of(config, number)
    return {
        **config.agent_settings(),
        "wire": VERSION,
        "number": number,
        "address": addressing.worker(number).address,
        "log_dir": str(run / "parts"),
        "n_ps": config.servers,
        "cpu": cpu_of(number, placement.workers),
        "seed": config.seed,
        "dim": config.dim,
        **({} if training is None else asdict(training)),
        "trace": str(run / "trace"),
        "jobs": [
            {
                "job": arm.job,
                "arm": arm.name,
                "epoch": epoch,
                "udp_port": addressing.worker_udp_port(arm.job),
                "previous_epochs": list(previous_epochs),
            }
            for arm in config.every_arm
        ],
        "services": [
            {"ps": ps, "address": service.address, "port": design(config.design).udp_port}
            for ps, service in enumerate(services)
        ],
        "workers": worker_addresses(config),
        "homes": homes,
        "home_index": 0 if config.leaf_spine is None else config.leaf_spine.home_index_of(number),
        "has_successors": config.after_death != "end",
        "switches": switches or [0] * (max(chain(*homes), default=0) + 1),
    }
