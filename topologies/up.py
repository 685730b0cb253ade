"""`python -m topologies.up SETTINGS`: switch and servers for somebody's scripts, until it is told to end.

Standard output gets one line of JSON: where it waits for workers, or what was wrong. The log goes to standard
error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from experiment.config import EPOCH, Config, load_config
from experiment.errors import PreflightError
from experiment.folder import give_to_user
from foundation.concurrency import gather_or_cancel, in_thread
from foundation.designs.arms import leading, measured
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.errors import HotlineError
from foundation.logs.columns import UPDATES
from foundation.logs.merge import last_updates
from foundation.protocol import addressing
from hosts.keys import KeySpace
from hosts.warm import warm
from topologies import preflight, routes
from topologies.agents import Agent, command_in
from topologies.fleet import provision, reached_at, server_config
from topologies.joined_worker import Message
from topologies.placement import Placement, place
from topologies.rendezvous import DEFAULT_SOCKET, SOCKET_VARIABLE, Rendezvous, Terms
from topologies.run_lock import hold_run_lock

log = logging.getLogger(__name__)

_STOP_S = 5.0


def folder_of(config: Config) -> Path:
    """What it writes: `up.log`, logs/, reports.jsonl, updates.parquet."""
    return (config.runs / "up").resolve()


def socket_path() -> Path:
    """Path of its socket."""
    return Path(os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET)


def arm_of(config: Config) -> Arm:
    """The arm that scripts run: the one that a design is judged by, or else its first."""
    return leading(config.design) or measured(config.design)[0]


def check(config: Config) -> None:
    """Raise `PreflightError` for what is missing, and for settings that scripts cannot have."""
    if config.recovery.durable is not None or config.recovery.replay_log:
        raise PreflightError("recovery: workers in scripts keep no replay logs; leave the table out")
    if config.is_lockstep:
        raise PreflightError(
            f"design {config.design}: its workers push together, and scripts do not; "
            "hotset and none take them"
        )
    preflight.check(config)


class UpBackend:
    """Switch and servers in a network; `Rendezvous` has them begin and end sessions."""

    def __init__(self, config: Config, placement: Placement, network: Any) -> None:
        self._config, self._placement, self._network = config, placement, network
        self._arm = arm_of(config)
        self._folder = folder_of(config)
        self._servers: list[Agent] = []
        self._watches: list[asyncio.Task[None]] = []
        self.rendezvous: Rendezvous | None = None
        """That is told of deaths."""

    @property
    def size(self) -> int:
        """Workers of a session."""
        return self._config.workers

    async def prepare(self) -> None:
        """Give the switch its program and rows."""
        await provision(self._network.address, self._config, [self._arm])

    async def begin(self, parameters: int) -> Terms:
        """Start the servers, and say how workers reach them."""
        running = self._network.switch.running
        if running is None or running.ended() is not None:
            await self._restart_switch()
        try:
            await self._start_servers(parameters)
        except BaseException:
            await self._quit_servers()
            raise
        deaths = [self._network.switch.until_it_dies(), *(each.until_it_dies() for each in self._servers)]
        self._watches = [asyncio.ensure_future(self._watch(death)) for death in deaths]
        port = addressing.worker_udp_port(self._arm.job)
        return Terms(
            job=self._arm.job,
            epoch=EPOCH,
            design=self._config.design,
            window=self._config.window,
            peers=[(each.address, design(self._config.design).udp_port) for each in reached_at(self._config)],
            workers=[(addressing.worker(number).address, port) for number in range(1, self.size + 1)],
            arm=self._arm.name,
            seed=self._config.seed,
        )

    async def end(self) -> None:
        """Quit the servers, keep what they counted, and empty the switch."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await self._quit_servers()
        self._keep_updates()
        if not (self.rendezvous and self.rendezvous.ended.is_set()):
            await self._restart_switch()

    async def _start_servers(self, parameters: int) -> None:
        (self._folder / "parts").mkdir(exist_ok=True)
        for number, host in enumerate(self._network.servers, start=1):
            settings = server_config(
                number, self._config, self._folder, self._placement, KeySpace(parameters), [self._arm]
            )
            command = command_in(host.pid, "hosts.ps")
            self._servers.append(
                await Agent.start(f"ps-{number - 1}", command, settings, self._folder / "logs")
            )
        await gather_or_cancel(each.ready() for each in self._servers)

    async def _quit_servers(self) -> None:
        servers, self._servers = self._servers, []
        await asyncio.gather(*(each.quit() for each in servers))

    def _keep_updates(self) -> None:
        """How often each parameter was pushed, for `hotline hotset build`; of the last session."""
        parts = self._folder / "parts"
        files = last_updates(parts)
        rows = [pl.read_parquet(file, columns=list(UPDATES)) for file in files]
        if rows:
            pl.concat(rows).write_parquet(self._folder / "updates.parquet")
        shutil.rmtree(parts, ignore_errors=True)
        give_to_user(self._folder)

    async def _restart_switch(self) -> None:
        switch = self._network.switch
        if switch.running is not None:
            await in_thread(switch.running.end, _STOP_S)
        switch.start_again()
        await switch.until_it_listens()
        await self.prepare()

    async def _watch(self, death: Coroutine[Any, Any, None]) -> None:
        try:
            await death
        except HotlineError as error:
            assert self.rendezvous is not None
            self.rendezvous.broken(str(error))


async def hold(config: Config, where: Path) -> None:
    """Be up until somebody asks for the end, or a signal comes."""
    # It imports Mininet.
    from topologies.network import network
    from topologies.nodes import ScriptHost

    placement, folder = place(config.placement, config.servers, config.workers), folder_of(config)
    with network(config, placement, folder / "logs", ScriptHost) as net:
        cluster = UpBackend(config, placement, net)
        await cluster.prepare()
        await in_thread(warm, config.design)
        rendezvous = cluster.rendezvous = Rendezvous(cluster, _Reports(folder / "reports.jsonl"))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, rendezvous.ended.set)
        where.parent.mkdir(parents=True, exist_ok=True)
        async with rendezvous.at(where):
            _say(connect=str(where), workers=config.workers, job=arm_of(config).job, switch=net.address)
            await rendezvous.ended.wait()
            log.info("going down")


class _Reports:
    """What workers report, a line of JSON each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, report: Message) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(report) + "\n")


def main(settings: Sequence[str]) -> int:
    """Be up, with `NAME=value` settings; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("finsy").setLevel(logging.ERROR)
    # While the network is built nothing waits for signals: it is taken down again.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        config = load_config(settings)
        check(config)
        with hold_run_lock(addressing.switch_interfaces(config.workers, config.servers)) as only:
            preflight.check_in_the_way(config)
            routes.remove()  # of one that was killed
            folder = folder_of(config)
            only.name(folder)
            for name in ("logs", "parts"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).mkdir(parents=True)
            for name in ("reports.jsonl", "updates.parquet"):
                (folder / name).unlink(missing_ok=True)
            asyncio.run(hold(config, socket_path()))
            give_to_user(folder)
    except (HotlineError, OSError) as error:
        log.error("%s", error)
        _say(error=str(error))
        return 1
    return 0


def _say(**line: object) -> None:
    with suppress(OSError):  # nobody listens any more
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
