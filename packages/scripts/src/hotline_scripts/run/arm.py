"""The scripts of one arm, and the rendezvous that coordinates them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from experiment.errors import RunFailed
from experiment.run_config import Config
from experiment.worker_plan import AfterDeath
from foundation.designs.interface import Arm
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.lines import Message
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.run.process import Script
from hotline_scripts.script_session import Terms
from hotline_scripts.terms import session_terms

_END_TIMEOUT_S = 10.0  # time for a script to end after its worker has failed, in s
StartServers = Callable[[EmbeddingTables], Awaitable[None]]
Publish = Callable[[Arm], Awaitable[None]]
"""From now on, let an arm's pulls return all updates acknowledged so far; raise `HotlineError` on failure."""


class ScriptArm:
    """The scripts of an arm in order of their workers' numbers, and the `Backend` of its rendezvous."""

    def __init__(
        self,
        arm: Arm,
        config: Config,
        run: Path,
        start_servers: StartServers,
        publish: Publish,
        on_report: Callable[[Message], None],
    ) -> None:
        self.arm = arm
        self._config, self._parts = config, run / "parts"
        self._start_servers, self._publish = start_servers, publish
        self._has_begun = False
        self._change_event = asyncio.Event()
        self.scripts: Sequence[Script] = [
            Script(number, arm.name, run / "logs" / f"script-{arm.name}-{number}.log")
            for number in range(1, config.workers + 1)
        ]
        self.rendezvous = Rendezvous(
            self, on_report=lambda report: on_report({"arm": arm.name, **report}), on_join=self._join
        )

    @property
    def size(self) -> int:
        return len(self.scripts)

    @property
    def after_death(self) -> AfterDeath:
        return "end"

    async def admit(self, rank: int, epoch: int) -> None:
        raise RunFailed(f"worker {rank}: expected no successor of a worker in a run")

    async def begin(self, tables: EmbeddingTables) -> Terms:
        if self._has_begun:
            raise RunFailed(
                f"arm {self.arm.name}: all workers have left, and none can join again: "
                "make only one hotline.Worker in each script"
            )
        await self._start_servers(tables)
        self._has_begun = True
        return session_terms(self._config, self.arm, self._parts)

    async def end(self, pushes: Mapping[str, int] | None) -> None:
        """Do nothing: servers keep the model until the run has accounted for it."""

    def limit_silence(self, servers: Sequence[int]) -> None:
        """Begin no wait: the run limits its blocks, and watches the servers' processes."""

    async def publish(self) -> None:
        await self._publish(self.arm)

    @property
    def joined_workers(self) -> list[JoinedWorker]:
        workers = (script.joined_worker for script in self.scripts)
        return [worker for worker in workers if worker is not None]

    @property
    def has_ended(self) -> bool:
        return all(script.worker_has_left for script in self.scripts)

    async def wait_until_joined(self, on_join: Callable[[], None]) -> None:
        while len(self.joined_workers) < self.size:
            self._change_event.clear()
            await self._change_event.wait()
            on_join()

    async def wait_until_done(self, steps: int, on_steps: Callable[[], None]) -> None:
        """Wait until all workers together have done `steps` steps of the block, or have left."""
        while True:
            on_steps()
            await self.check()
            if self.steps >= steps or self.has_ended:
                return
            self._change_event.clear()
            await self._change_event.wait()

    async def check(self) -> None:
        """Raise `AgentFailed` for a worker with a lost connection, after giving its process time to end."""
        lost_scripts = [
            script for script in self.scripts if script.joined_worker and script.joined_worker.is_lost
        ]
        if lost_scripts:
            await asyncio.sleep(_END_TIMEOUT_S)
            raise lost_scripts[0].failure()

    @property
    def steps(self) -> int:
        return sum(worker.steps for worker in self.joined_workers)

    def _join(self, worker: JoinedWorker) -> None:
        script = self.scripts[worker.rank]
        script.joined_worker = worker

        def notify() -> None:
            if worker.has_left.is_set():
                script.record_end()
            self._change_event.set()

        worker.on_change = notify
        self._change_event.set()
