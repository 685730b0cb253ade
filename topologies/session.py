"""A run under way in real processes: the network with its agents."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from analysis.record import ProgramUse, ServerUse
from controller.controller import Controller
from controller.errors import ControllerError
from experiment.config import Faults
from experiment.health import Health
from experiment.session import START_AHEAD_NS, OnProgress, Planned, Ran, Reading, Session
from experiment.sizes import STEP_PATIENCE_S
from foundation.concurrency import gather_or_cancel
from foundation.designs.hotset import PROFILE
from foundation.logs.columns import OPERATIONS
from foundation.logs.merge import OPERATIONS_TIME, measured
from topologies.agents import Agent, Answer, CommandTarget, call_all
from topologies.disturbance import read
from topologies.isolation import cpu_ns
from topologies.machine import peak_memory_mb, run_queue_ns
from topologies.placement import Placement, program_use_of

if TYPE_CHECKING:  # it needs Mininet, and this does not
    from topologies.network import Network

T = TypeVar("T")
_STEPS_AT_A_TIME = 10
_FAULTY = 4
"""Where frames are lost, steps take several times as long."""


@dataclass(slots=True, kw_only=True)
class RealSession(Session):
    """What phases ask of it goes to the agents' pipes, to the switch, and to the kernel."""

    network: Network
    workers: Sequence[CommandTarget]
    servers: list[Agent]
    placement: Placement = field(default_factory=Placement)
    cpus: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    """Those that the run may use."""
    loaded: dict[int, Sequence[int]] = field(default_factory=dict)
    """Job -> its hot set, where one is in the switch, or on its way there."""
    health: Health = field(default_factory=Health)
    _at_switch: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of controllers of this run one is there at a time."""
    _seen: set[Path] = field(default_factory=set)
    """Part files that `new_operations` has read."""

    def clock_ns(self) -> int:
        """Time on the clock that steps are run by, ns."""
        return time.monotonic_ns()

    def spent_s(self) -> float:
        """What counts against `budget_s`: time."""
        return self.clock_ns() / 1e9

    async def run_steps(self, planned: Planned, on_progress: OnProgress | None = None) -> list[Ran]:
        """Command every worker to; they answer when they have done it."""
        start_ns = self.clock_ns() + START_AHEAD_NS
        command: dict[str, Any] = {
            "cmd": "run",
            "job": planned.arm.job,
            "first_step": planned.first_step,
            "steps": planned.steps,
            "period_ns": planned.period_ns,
            "round": planned.round,
            "load": planned.load,
            "discard_ns": self.config.discard_ms * 1_000_000,
            "discard_steps": planned.discarded,
        }
        steps, period_ns = planned.steps, planned.period_ns
        step_s = 10 * period_ns / 1e9 or STEP_PATIENCE_S[self.config.codec]
        patience = 60.0 + steps * step_s
        if self.config.faults != Faults():
            patience *= _FAULTY
        answers = await gather_or_cancel(
            worker.call({**command, "start_ns": start_ns + offset}, patience, on_progress)
            for worker, offset in zip(self.workers, planned.offsets_ns or repeat(0), strict=False)
        )
        return [Ran.model_validate(answer) for answer in answers]

    async def load(self, keys: Sequence[int]) -> None:
        """For the profile job while it trains, then for the offloaded arms; then their workers are hinted."""
        arms = self.config.offloaded
        with self.reporter.phase("load", (1 + len(arms)) * len(keys)) as phase:
            await self._load_under_training(keys, phase.update)
            if not self.config.keeps_profile:
                await self._load_job(PROFILE.job, [])
            for number, arm in enumerate(arms, start=1):
                await self._load_job(arm.job, keys, phase.update, number * len(keys))
        for arm in (PROFILE, *arms):
            command = {"cmd": "hint", "job": arm.job, "file": str(self.hot_set)}
            await call_all(self.workers, command)

    async def _load_under_training(self, keys: Sequence[int], told: Callable[[float], None]) -> None:
        loaded = asyncio.Event()

        async def train() -> None:
            while not loaded.is_set():
                await self.run_steps(Planned(PROFILE, self.take_steps(_STEPS_AT_A_TIME), _STEPS_AT_A_TIME))

        training = asyncio.ensure_future(train())
        try:
            await self._load_job(PROFILE.job, keys, told)
            loaded.set()
            await training
        finally:
            # Behind a load that has not come to its end, workers wait for keys on their way in vain.
            training.cancel()
            await asyncio.gather(training, return_exceptions=True)

    async def _load_job(
        self, job: int, keys: Sequence[int], told: Callable[[float], None] | None = None, before: int = 0
    ) -> None:
        """Have these keys, and no others, in the switch for a job; `told` of so many more than before."""

        def progress(done: int, total: int) -> None:
            if told is not None:
                told(before + done)

        async def load() -> None:
            async with self.controller() as controller:
                await controller.load(job, keys, progress=progress)

        # Before it is: whoever restores the switch meanwhile finishes it.
        self.loaded[job] = keys
        await self.steadily(load)

    async def write_updates(self) -> None:
        """Servers write, when they are told to."""
        await call_all(self.servers, {"cmd": "flush"})

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[Controller]:
        """A controller of the switch."""
        async with (
            self._at_switch,
            Controller(self.network.address, undisturbed=True, design=self.config.design) as controller,
        ):
            yield controller

    async def steadily(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do what may be done again, until nobody has died meanwhile."""
        while True:
            await self.health.until_whole()
            deaths = self.health.deaths
            working = asyncio.ensure_future(work())
            dying = asyncio.ensure_future(self.health.until_death(deaths))
            try:
                await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
                if working.done() and self.health.deaths == deaths:
                    return working.result()
            except ControllerError:
                if not await self.health.explains(deaths):
                    raise
            finally:
                working.cancel()
                dying.cancel()
                await asyncio.gather(working, dying, return_exceptions=True)

    def restarts(self) -> dict[str, int]:
        """How often the switch and PSs have been started again; those that were not are left out."""
        switch = self.network.switch
        every = {switch.name: switch.restarts, **{server.name: server.restarts for server in self.servers}}
        return {name: restarts for name, restarts in every.items() if restarts}

    async def server_use(self) -> dict[str, ServerUse]:
        """What the PS agents have done for each arm since they started; their CPU is in every arm's."""
        answers = await call_all(self.servers, {"cmd": "stats"})
        return {arm.name: _total_use(answers, arm.job) for arm in self.config.every_arm}

    def program_use(self) -> ProgramUse | None:
        """What the kernel's program has taken since the start, and whose; None where it is not told."""
        if self.record.datapath != "kernel":
            return None
        counted = self.network.switch.counters()
        if counted is None:
            return None
        return program_use_of(counted["ports"], self.config.workers, self.config.servers, self.placement)

    def read_machine(self) -> Reading:
        """What takes the CPUs from the run."""
        return read(cpus=self.cpus)

    async def new_operations(self) -> pl.DataFrame:
        """What the workers have logged since the last call, without blocks that were run again."""
        await call_all(self.workers, {"cmd": "flush"})
        files = set(self.parts.glob("operations-worker-*.parquet")) - self._seen
        self._seen |= files
        rows = [pl.read_parquet(file) for file in files]
        found = pl.concat(rows) if rows else pl.DataFrame(schema=OPERATIONS)
        return found.with_columns(measured(OPERATIONS_TIME, self.record.repeated()))

    def switch_threads(self) -> dict[int, int]:
        """CPU time of each thread of the switch, in ns."""
        running = self.network.switch.running
        return {} if running is None else cpu_ns(running.process.pid)

    def run_queues_ns(self) -> dict[str, int]:
        """Run-queue delay of every process since it started."""
        return {name: run_queue_ns(pid) for name, pid in self.pids().items()}

    def peak_memory_mb(self) -> dict[str, float]:
        """The most memory that every process has had."""
        return {name: peak_memory_mb(pid) for name, pid in self.pids().items()}

    def pids(self) -> dict[str, int]:
        """Of all processes."""
        pids = {each.name: each.pid for each in (*self.workers, *self.servers) if isinstance(each, Agent)}
        switch = self.network.switch
        if switch.running is not None:
            pids[switch.name] = switch.running.process.pid
        return pids


_DURABILITY = ("commits", "commit_ns", "delayed", "delay_ns")


def _total_use(answers: list[Answer], job: int) -> ServerUse:
    of_job = [answer["jobs"][str(job)] for answer in answers]
    return ServerUse(
        packets=sum(use["packets"] for use in of_job),
        bytes=sum(use["bytes"] for use in of_job),
        proc_wall_ns=sum(use["proc_wall_ns"] for use in of_job),
        proc_cpu_ns=sum(use["proc_cpu_ns"] for use in of_job),
        cpu_s=sum(answer["cpu_s"] for answer in answers),
        **{name: sum(answer["durability"][name] for answer in answers) for name in _DURABILITY},
    )
