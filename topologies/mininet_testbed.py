"""Runs on Mininet, on this machine; Mininet itself is imported when the network is built."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from analysis.record import RunRecord
from experiment.machine_description import describe_machine
from experiment.progress import Reporter
from experiment.requirements import RunKind
from experiment.run_config import Config
from foundation.logs.collector import COLLECTOR, run_collector
from foundation.text import pluralize
from hosts.compiled_agents import compiled_agents, require_compiled_agents
from topologies import preflight, routes
from topologies.agent_launcher import AGENTS_LOG, agent_launcher
from topologies.capture import capture
from topologies.cpu_placement import Placement, place
from topologies.process_statistics import describe_versions
from topologies.run_lock import RunLock, hold_run_lock, remove_killed_run
from topologies.testbed import Testbed, TestbedKind, UpTestbed

log = logging.getLogger(__name__)


class MininetTestbed(TestbedKind):
    def check(self, config: Config) -> None:
        preflight.check(config)

    @contextmanager
    def reserve(self, config: Config) -> Iterator[RunLock]:
        with hold_run_lock(config.switch_interfaces) as run_lock:
            if run_lock.removed_run:
                processes = pluralize(run_lock.removed_run.processes, "process", "processes")
                log.info("removed the remains of a killed run: %s", processes)
            preflight.check_conflicts(config)
            yield run_lock

    def remove_killed(self, config: Config) -> list[str]:
        with hold_run_lock([]) as run_lock:
            removed_run = run_lock.removed_run
        processes = pluralize(removed_run.processes, "process", "processes")
        return [*([processes] if removed_run.processes else []), *removed_run.interfaces]

    def remove_remains(self, config: Config) -> None:
        remove_killed_run(config.switch_interfaces)

    def describe(self, config: Config, record: RunRecord) -> None:
        record.machine = dict(describe_machine())
        record.versions = describe_versions(config.target)
        record.placement = dict(_place(config).as_record())

    @asynccontextmanager
    async def open(
        self, config: Config, run: Path, record: RunRecord, reporter: Reporter
    ) -> AsyncIterator[Testbed]:
        # These import Mininet, whose presence the preflight has checked.
        from topologies.mininet_api import CLI
        from topologies.network import network

        placement = _place(config)
        async with AsyncExitStack() as stack:
            with reporter.phase("network"):
                logs = run / "logs"
                # A fork server compiles; without one, each agent imports its modules itself.
                launcher = None
                if (agents := compiled_agents()) is not None:
                    starting = agent_launcher(agents.fork_server, config.design, logs / AGENTS_LOG)
                    launcher = await stack.enter_async_context(starting)
                testbed_network = stack.enter_context(network(config, placement, logs, launcher=launcher))
                if config.pcap:
                    stack.enter_context(capture(config.switch_interfaces, run / "pcap"))
            async with run_collector(run / "parts", COLLECTOR) as collector:
                yield Testbed(testbed_network, placement, collector, lambda: CLI(testbed_network.mininet))

    def check_up(self, config: Config) -> None:
        preflight.check(config, RunKind.UP)

    @contextmanager
    def reserve_up(self, config: Config, ended_by: str) -> Iterator[RunLock]:
        with hold_run_lock(config.switch_interfaces, ended_by=ended_by) as run_lock:
            preflight.check_conflicts(config)
            routes.remove()  # the rules of a killed process
            yield run_lock

    @asynccontextmanager
    async def open_up(self, config: Config, folder: Path) -> AsyncIterator[UpTestbed]:
        from topologies.network import ScriptHost, network

        placement, logs = _place(config), folder / "logs"
        async with AsyncExitStack() as stack:
            fork_server = require_compiled_agents("`hotline up`").fork_server
            starting = agent_launcher(fork_server, config.design, logs / AGENTS_LOG)
            launcher = await stack.enter_async_context(starting)
            testbed_network = stack.enter_context(network(config, placement, logs, ScriptHost, launcher))
            yield UpTestbed(testbed_network, placement, {}, _wait_for_ever)


async def _wait_for_ever() -> None:
    await asyncio.Event().wait()


def _place(config: Config) -> Placement:
    return place(config.placement, config.servers, config.workers)
