"""The experiment: empty RPCs through the switch to a server with 1 to 4,096 connections, in random order."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from controller.controller import Controller
from controller.tables import InitialRow, JobRow, WorkerRow
from experiment.design_parts import initial_rows
from experiment.errors import AgentFailed
from experiment.run_config import EPOCH, Config
from foundation.designs.hotset import BASELINE, settings_of
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT
from hotline_paper.connections.settings import RPCS, ConnectionSetting, settings
from topologies.agents import Agent, namespace_command
from topologies.cpu_placement import Placement, cpu_of, place
from topologies.network import RunningNetwork, network

_WARM_UP_RPCS = 64
_FIRST_PORT = 20_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement; times in µs from send to receive."""

    round: int
    way: str  # how the server waits for requests
    connections: int
    active: bool  # whether all connections call, or only some
    arm: str
    mean_us: float
    p50_us: float
    p99_us: float
    server_cpu_us: float  # CPU time of an RPC


async def run(
    rounds: int, connections: Sequence[int], log_dir: Path, progress: Callable[[int, int], None]
) -> pl.DataFrame:
    config = Config(workers=1, servers=1)
    placement = place(config.placement, servers=1, workers=1)
    shuffled_settings, measurements, rng = settings(connections), list[Measurement](), random.Random(1)
    with network(config, placement, log_dir) as net:
        async with (
            _agents(net, placement, max(connections), log_dir) as (client, server),
            Controller(net.address, exclusive=True) as controller,
        ):
            await controller.commit_pipeline()
            await controller.install(*_table_entries(config, max(connections)))
            for round_number in range(rounds):
                rng.shuffle(shuffled_settings)
                for setting in shuffled_settings:
                    # All measurements use the same job number, so only the job's settings differ.
                    arm = settings_of(setting.arm)
                    await controller.install(JobRow(BASELINE.job, arm.aggregates, arm.proxies))
                    try:
                        measurements.append(await _measure(round_number, setting, client, server))
                    except AgentFailed as error:
                        raise AgentFailed(f"{setting}: {error}") from None
                    progress(len(measurements), rounds * len(shuffled_settings))
    return pl.DataFrame([asdict(each) for each in measurements])


async def _measure(
    round_number: int, setting: ConnectionSetting, client: Agent, server: Agent
) -> Measurement:
    await server.call({"cmd": "listen", "way": setting.way, "peers": list(_peers(setting))})
    command = {"cmd": "measure", "callers": setting.callers, "seed": round_number}
    # Warm up the server's loop and sockets.
    await client.call({**command, "rpcs": _WARM_UP_RPCS})
    stats_before = await server.call({"cmd": "stats"})
    latencies = await client.call({**command, "rpcs": RPCS})
    stats_after = await server.call({"cmd": "stats"})
    return Measurement(
        round=round_number,
        way=setting.way,
        connections=setting.connections,
        active=setting.active,
        arm=setting.arm.name,
        **{f"{name}_us": latencies[name] for name in ("mean", "p50", "p99")},
        server_cpu_us=1e6 * (stats_after["cpu_s"] - stats_before["cpu_s"]) / RPCS,
    )


def _peers(setting: ConnectionSetting) -> Iterator[tuple[str, int]]:
    # A switch that is a proxy forwards the RPCs of all callers with the service's address as their source.
    if settings_of(setting.arm).proxies:
        yield addressing.service(1).address, HOTLINE_PORT
        return
    for caller in range(setting.connections):
        yield addressing.worker(1).address, _FIRST_PORT + caller


@asynccontextmanager
async def _agents(
    net: RunningNetwork, placement: Placement, callers: int, log_dir: Path
) -> AsyncIterator[tuple[Agent, Agent]]:
    common_settings = {"job": BASELINE.job, "epoch": EPOCH}
    server_config = {
        "address": addressing.server(1).address,
        "port": HOTLINE_PORT,
        "cpu": cpu_of(1, placement.servers),
        **common_settings,
    }
    client_config = {
        "address": addressing.worker(1).address,
        "first_port": _FIRST_PORT,
        "callers": callers,
        "service": [addressing.service(1).address, HOTLINE_PORT],
        "cpu": cpu_of(1, placement.workers),
        **common_settings,
    }
    agents: list[Agent] = []
    try:
        for name, host, agent_settings in (
            ("client", net.workers[0], client_config),
            ("server", net.servers[0], server_config),
        ):
            command = namespace_command(host.pid, f"hotline_paper.connections.{name}")
            agents.append(await Agent(name, command, agent_settings, log_dir).start())
        for agent in agents:
            await agent.ready()
        yield agents[0], agents[1]
    finally:
        for agent in agents:
            await agent.quit()


def _table_entries(config: Config, callers: int) -> Iterator[InitialRow]:
    # The worker's host has all callers, each at a port.
    yield from (row for row in initial_rows(config, [BASELINE]) if not isinstance(row, WorkerRow))
    worker = addressing.worker(1)
    for caller in range(callers):
        yield WorkerRow(
            job=BASELINE.job,
            worker=caller + 1,
            epoch=EPOCH,
            caller=caller,
            mac=worker.mac,
            addr=worker.address,
            udp_port=_FIRST_PORT + caller,
            port=addressing.worker_port(1),
        )
