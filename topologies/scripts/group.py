"""All scripts of a run, from the first process until none is left, and the servers that they share."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiment.config import Config
from experiment.errors import RunFailed
from experiment.folder import give_to_user
from experiment.health import Health
from experiment.progress import Reporter
from foundation.concurrency import gather_or_cancel
from foundation.designs.interface import Arm
from hosts.keys import KeySpace
from topologies import rendezvous
from topologies.agents import Agent, supervised
from topologies.fleet import start_servers
from topologies.joined_worker import Message
from topologies.placement import Placement, cpu_of
from topologies.scripts.arm import ScriptArm
from topologies.scripts.process import command_of, environment_of
from topologies.scripts.worker import ScriptWorker

if TYPE_CHECKING:  # it needs Mininet, and this does not
    from topologies.network import Network

log = logging.getLogger(__name__)

_REMIND_S = 60.0
_PLACES = Path("/run/hotline")
"""A run's folder may lie where there are no sockets."""
REPORTS = "reports.jsonl"
"""What workers report, a line of JSON each, in the run's folder."""


@dataclass(frozen=True, slots=True)
class ScriptGroup:
    """Workers that have joined, and servers that are ready."""

    arms: Sequence[ScriptArm]
    workers: list[ScriptWorker]
    servers: list[Agent]
    space: KeySpace


class _Servers:
    """Those of all arms, with as many parameters as the tables of whoever joined first."""

    def __init__(
        self, config: Config, run: Path, placement: Placement, net: Network, collector: Path, health: Health
    ) -> None:
        self._rest = config, run, placement, net
        self._told = collector, health
        self.agents: list[Agent] = []
        self.parameters = 0
        self._starting = asyncio.Lock()

    async def start(self, parameters: int) -> None:
        """Start them, unless they are there."""
        async with self._starting:
            if self.parameters and parameters != self.parameters:
                raise RunFailed(
                    f"tables of {parameters:,} values; in another arm the script has declared "
                    f"{self.parameters:,}: let it declare the same in all"
                )
            if not self.parameters:
                self.parameters = parameters
                await start_servers(self.agents, *self._rest, KeySpace(parameters), *self._told)
                await gather_or_cancel(agent.ready() for agent in self.agents)

    async def quit(self) -> None:
        """End them."""
        await asyncio.gather(*(agent.quit() for agent in self.agents))


@asynccontextmanager
async def script_group(
    config: Config, run: Path, placement: Placement, net: Network, collector: Path, health: Health,
    reporter: Reporter,
) -> AsyncIterator[ScriptGroup]:  # fmt: skip
    """Start a process for each worker and arm, and wait until all have joined; at the end all are ended."""
    give_to_user(run / "parts")  # where they write, who are that user's
    servers = _Servers(config, run, placement, net, collector, health)
    arms = [ScriptArm(arm, config, run, servers.start, _Reports(run / REPORTS)) for arm in config.every_arm]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(servers.quit)
        stack.enter_context(_quiet())
        _PLACES.mkdir(parents=True, exist_ok=True)
        for arm in arms:
            await stack.enter_async_context(arm.rendezvous.at(_place(arm.arm)))
        stack.push_async_callback(_end, arms)
        for arm in arms:
            for script, host in zip(arm.scripts, net.workers, strict=True):
                command = command_of(
                    config.script_command, host.pid, cpu_of(script.worker, placement.workers)
                )
                await script.start(command, environment_of(_place(arm.arm), script.worker - 1))
        workers = [ScriptWorker(number, arms) for number in range(1, config.workers + 1)]
        with reporter.phase("scripts", len(arms) * config.workers) as phase:

            def told() -> None:
                phase.update(sum(len(arm.joined_workers) for arm in arms))

            reminder = asyncio.ensure_future(_remind(arms, run / "logs"))
            try:
                joining = gather_or_cancel(arm.until_joined(told) for arm in arms)
                await supervised(joining, [worker.until_it_dies() for worker in workers])
            finally:
                reminder.cancel()
        yield ScriptGroup(arms, workers, servers.agents, KeySpace(servers.parameters))


class _Reports:
    """Writes what workers report."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, report: Message) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(report) + "\n")


def _place(arm: Arm) -> Path:
    """Where an arm's workers meet: one run at a time has it."""
    return _PLACES / f"run-{arm.job}.sock"


async def _remind(arms: Sequence[ScriptArm], logs: Path) -> None:
    """Say what is waited for, as scripts may load data for as long as they like."""
    await asyncio.sleep(_REMIND_S)
    joined, all_of_them = sum(len(arm.joined_workers) for arm in arms), sum(arm.size for arm in arms)
    log.info(
        "%d of %d scripts have made their hotline.Worker; what they print is in %s",
        joined,
        all_of_them,
        logs / "script-*.log",
    )


async def _end(arms: Sequence[ScriptArm]) -> None:
    await asyncio.gather(*(script.end() for arm in arms for script in arm.scripts))


@contextmanager
def _quiet() -> Iterator[None]:
    """Who comes and goes is the progress of a run, and no news."""
    before = rendezvous.log.level
    rendezvous.log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        rendezvous.log.setLevel(before)
