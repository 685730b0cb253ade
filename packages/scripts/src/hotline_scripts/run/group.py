from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiment.errors import RunFailed
from experiment.folder import chown_to_sudo_user
from experiment.processes import RunProcesses
from experiment.run_config import Config
from foundation.concurrency import gather_or_cancel
from foundation.designs.interface import Arm
from hosts.keys import KeySpace
from hotline_scripts import rendezvous
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.rendezvous import REPORTS, append_report
from hotline_scripts.run.arm import ScriptArm
from hotline_scripts.run.worker import ScriptWorker
from hotline_scripts.terms import tables_of_design
from topologies.agents import Agent, supervise
from topologies.cpu_placement import cpu_of
from topologies.fleet import RunContext, publish, set_ranges, start_servers
from topologies.script_command import ScriptCommand

log = logging.getLogger(__name__)

_REMINDER_DELAY_S = 60.0
_SOCKETS = Path("/run/hotline")
"""Folder of the sockets; the file system of a run's folder may not support them."""


@dataclass(frozen=True, slots=True)
class ScriptGroup:
    arms: Sequence[ScriptArm]
    workers: list[ScriptWorker]
    servers: list[Agent]
    space: KeySpace


class _SharedServers:
    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.agents: list[Agent] = []
        self._tables: EmbeddingTables | None = None
        self._start_lock = asyncio.Lock()

    @property
    def _processes(self) -> RunProcesses:
        return self._context.liveness.processes

    @property
    def space(self) -> KeySpace:
        assert self._tables is not None, "expected the tables of scripts that have joined"
        return self._tables.space

    async def start(self, tables: EmbeddingTables) -> None:
        """Start the servers, unless they are running; raise `RunFailed` if another arm has other tables."""
        async with self._start_lock:
            if self._tables is None:
                context = self._context
                self._tables = tables = tables_of_design(context.config, tables)
                await start_servers(self.agents, context, tables.space, tables.optimisers)
                for arm in context.config.every_arm:
                    await set_ranges(
                        context.network.address, context.config, self._processes, arm, tables.space
                    )
                await gather_or_cancel(agent.ready() for agent in self.agents)
            elif difference := tables.describe_difference(self._tables):
                raise RunFailed(f"{difference} in another arm: let the script declare the same in all")

    async def publish(self, arm: Arm) -> None:
        await publish(self._context.network.address, self._context.config, self._processes, arm)

    async def quit(self) -> None:
        await asyncio.gather(*(agent.quit() for agent in self.agents))


def arms_of_scripts(config: Config) -> list[Arm]:
    """Return the arms whose scripts take steps: those that are measured, after the one to profile."""
    first, *others = config.every_arm
    return [first, *(arm for arm in others if arm in config.measured_arms or not arm.is_measured)]


@asynccontextmanager
async def script_group(context: RunContext) -> AsyncIterator[ScriptGroup]:
    """Start a process for each worker and arm, and wait until all have joined; end all processes on exit."""
    config, run, testbed_network = context.config, context.run, context.network
    processes = context.liveness.processes
    chown_to_sudo_user(run / "parts")  # scripts run as that user, and write there
    servers = _SharedServers(context)
    arms = [
        ScriptArm(arm, config, run, servers.start, servers.publish, partial(append_report, run / REPORTS))
        for arm in arms_of_scripts(config)
    ]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(servers.quit)
        stack.enter_context(_mute_rendezvous_log())
        for script_arm in arms:
            await stack.enter_async_context(
                testbed_network.serve_workers(script_arm.rendezvous, _socket_path(script_arm.arm))
            )
        stack.push_async_callback(_end_scripts, arms)
        for script_arm in arms:
            for script, host in zip(script_arm.scripts, testbed_network.workers, strict=True):
                command = ScriptCommand(
                    tuple(config.script_command),
                    _socket_path(script_arm.arm),
                    script.rank,
                    cpu_of(script.worker, context.placement.workers),
                )
                await script.start(host, command)
                name = f"worker-{script.worker} of {script.arm}"
                processes.register(name, script.activity)
                context.liveness.members.add(name, script.pid, host.switch_interface)
        workers = [ScriptWorker(number, arms, processes) for number in range(1, config.workers + 1)]
        with context.reporter.phase("scripts", len(arms) * config.workers) as phase:
            reminder = asyncio.ensure_future(_log_missing_scripts(arms, run / "logs"))
            try:
                join_waits = gather_or_cancel(
                    arm.wait_until_joined(lambda: phase.update(_count_joined(arms))) for arm in arms
                )
                await supervise(join_waits, [worker.wait_until_failed() for worker in workers])
            finally:
                reminder.cancel()
        yield ScriptGroup(arms, workers, servers.agents, servers.space)


def _socket_path(arm: Arm) -> Path:
    return _SOCKETS / f"run-{arm.job}.sock"


async def _log_missing_scripts(arms: Sequence[ScriptArm], logs: Path) -> None:
    await asyncio.sleep(_REMINDER_DELAY_S)
    log.info(
        "%d of %d scripts have made their hotline.Worker; their output is in %s",
        _count_joined(arms),
        sum(arm.size for arm in arms),
        logs / "script-*.log",
    )


def _count_joined(arms: Sequence[ScriptArm]) -> int:
    return sum(len(arm.joined_workers) for arm in arms)


async def _end_scripts(arms: Sequence[ScriptArm]) -> None:
    await asyncio.gather(*(script.end() for arm in arms for script in arm.scripts))


@contextmanager
def _mute_rendezvous_log() -> Iterator[None]:
    level = rendezvous.log.level
    rendezvous.log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        rendezvous.log.setLevel(level)
