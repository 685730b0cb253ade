"""One arm's scripts, which meet at a rendezvous of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from experiment.config import EPOCH, Config
from experiment.errors import RunFailed
from foundation.designs.interface import Arm
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT
from topologies.fleet import reached_at
from topologies.joined_worker import JoinedWorker, Message
from topologies.rendezvous import Rendezvous, Terms
from topologies.scripts.process import Script

_END_S = 10.0
"""For the process of a worker that has ended by an error."""
StartServers = Callable[[int], Awaitable[None]]
"""(parameters): have servers with so many, those of all arms together; raises `HotlineError`."""


class ScriptArm:
    """An arm's scripts, in order of their workers' numbers; the `Cluster` of its rendezvous.

    `told` gets what workers report.
    """

    def __init__(
        self,
        arm: Arm,
        config: Config,
        run: Path,
        start_servers: StartServers,
        told: Callable[[Message], None],
    ) -> None:
        self.arm = arm
        self._config, self._parts = config, run / "parts"
        self._start_servers = start_servers
        self._has_begun = False
        self._changed = asyncio.Event()
        self.scripts: Sequence[Script] = [
            Script(number, arm.name, run / "logs" / f"script-{arm.name}-{number}.log")
            for number in range(1, config.workers + 1)
        ]
        self.rendezvous = Rendezvous(self, lambda report: told({"arm": arm.name, **report}), self._join)

    @property
    def size(self) -> int:
        """Workers."""
        return len(self.scripts)

    async def begin(self, parameters: int) -> Terms:
        """What the workers are told."""
        if self._has_begun:
            raise RunFailed(
                f"arm {self.arm.name}: all workers have left, and with them the model: "
                "make one hotline.Worker in a script"
            )
        await self._start_servers(parameters)
        self._has_begun = True
        port = addressing.worker_udp_port(self.arm.job)
        return Terms(
            job=self.arm.job,
            epoch=EPOCH,
            design=self._config.design,
            window=self._config.window,
            peers=[(each.address, HOTLINE_PORT) for each in reached_at(self._config)],
            workers=[(addressing.worker(number).address, port) for number in range(1, self.size + 1)],
            arm=self.arm.name,
            seed=self._config.seed,
            parts=str(self._parts),
        )

    async def end(self) -> None:
        """All have left; servers keep what was trained until the run has looked at it."""

    @property
    def joined_workers(self) -> list[JoinedWorker]:
        """Workers that have joined."""
        return [script.joined for script in self.scripts if script.joined is not None]

    @property
    def has_ended(self) -> bool:
        """Whether nobody takes a step any more."""
        return all(script.has_ended for script in self.scripts)

    async def until_joined(self, told: Callable[[], None]) -> None:
        """Until all workers have joined; `told` whenever one has."""
        while len(self.joined_workers) < self.size:
            self._changed.clear()
            await self._changed.wait()
            told()

    async def until_done(self, steps: int, told: Callable[[], None]) -> None:
        """Until all workers together have done so many steps since they were let through, or have left."""
        while True:
            told()
            await self.check()
            if self.steps >= steps or self.has_ended:
                return
            self._changed.clear()
            await self._changed.wait()

    async def check(self) -> None:
        """Raise `AgentFailed` for a worker that has ended without leaving.

        Whoever watches processes is first, if its process ends of it: that tells why.
        """
        lost = [script for script in self.scripts if script.joined is not None and script.joined.is_lost]
        if lost:
            await asyncio.sleep(_END_S)
            raise lost[0].failure()

    @property
    def steps(self) -> int:
        """Of all workers, since they were let through."""
        return sum(joined.steps for joined in self.joined_workers)

    def _join(self, joined: JoinedWorker) -> None:
        script = self.scripts[joined.rank]
        script.joined = joined

        def changed() -> None:
            if joined.has_left.is_set():
                script.loses()
            self._changed.set()

        joined.on_steps = changed
        self._changed.set()
