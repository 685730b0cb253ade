from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import polars as pl

from analysis.record import ProgramUse, ServerUse, Staleness, WorkerChange
from controller.controller import Controller, no_progress
from controller.controller_ops import control_of
from controller.errors import ControllerError
from controller.hotset.migrate import Progress
from controller.tables import TableRow
from experiment.defaults import MAX_STEP_S
from experiment.errors import AgentFailed
from experiment.liveness import Liveness
from experiment.run_config import EPOCH, Faults
from experiment.session import START_AHEAD_NS, BlockResult, MachineCounters, OnProgress, PlannedBlock, Session
from experiment.worker_plan import PlannedChange
from foundation.concurrency import gather_or_cancel
from foundation.designs.arms import profile_arm
from foundation.designs.interface import Arm, ControllerOps
from foundation.designs.registry import design
from foundation.logs.columns import OPERATIONS
from foundation.logs.merge import OPERATIONS_TIME, is_measured
from foundation.protocol.leaf_spine import SPINE
from hosts.replay import SwitchNumbers
from topologies.agent_process import Message
from topologies.agents import CALL_TIMEOUT_S, Agent, CommandTarget, call_all
from topologies.cpu_placement import Placement
from topologies.fleet import controller_of, own_controller
from topologies.process_statistics import peak_memory_mb, read_cpu_ns_by_thread, run_queue_ns
from topologies.testbed import ControlledSwitch, TestbedNetwork, name_switch_rate
from topologies.worker_epochs import WorkerEpochs

T = TypeVar("T")
_BASE_TIMEOUT_S = 60.0
_MAX_PERIODS_PER_STEP = 10
_TRAINING_STEPS = 10  # between two checks of whether the load is done
_FAULTS_TIMEOUT_FACTOR = 4  # steps take several times as long if frames are lost


@dataclass(slots=True, kw_only=True)
class RealSession(Session):
    network: TestbedNetwork
    workers: Sequence[CommandTarget]
    servers: list[Agent]
    placement: Placement = field(default_factory=Placement)
    cpus: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    hot_sets: dict[int, Sequence[int]] = field(default_factory=dict)
    """Job -> its hot set that is in the switch or being loaded."""
    liveness: Liveness = field(default_factory=Liveness)
    worker_epochs: WorkerEpochs = field(default_factory=WorkerEpochs)
    worker_plan: Sequence[PlannedChange] = ()
    """Kills and joins of workers that are still to come."""
    hints: list[Message] = field(default_factory=list)
    """Commands that have told the workers about hot sets; a later worker needs them, too."""
    _round: int = -1  # of the last block
    _controller_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _read_parts: set[Path] = field(default_factory=set)
    _settled: dict[int, int] = field(default_factory=dict)
    """Number of a home -> its last restart for which servers have applied all replayed updates."""

    def clock_ns(self) -> int:
        return time.monotonic_ns()

    def budget_clock_s(self) -> float:
        return self.clock_ns() / 1e9

    @asynccontextmanager
    async def active(self, arm: Arm) -> AsyncIterator[None]:
        # From `publish` to `stop_exchanges`, servers exchange values with the switch without requests.
        publish = self._controller_ops.publish
        if arm.settings.aggregates and publish is not None:
            await self._command_controller(lambda controller: publish(controller, arm.job))
        yield
        await self._stop_exchanges(arm)

    async def _stop_exchanges(self, arm: Arm) -> None:
        stop_exchanges = self._controller_ops.stop_exchanges
        if arm.settings.aggregates and stop_exchanges is not None:
            await self._command_controller(lambda controller: stop_exchanges(controller, arm))

    async def _command_controller(self, command: Callable[[Controller], Awaitable[None]]) -> None:
        async def work() -> None:
            async with self.controller() as controller:
                await command(controller)

        await self.retry_after_deaths(work)

    @property
    def arms_with_workers(self) -> Sequence[Arm]:
        return self.config.every_arm

    @property
    def _controller_ops(self) -> ControllerOps[Controller, TableRow]:
        return control_of(design(self.config.design))

    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        clocks_ns = await self.network.worker_clocks_ns()
        start_ns = self.clock_ns() + START_AHEAD_NS
        command: dict[str, object] = {
            "cmd": "run",
            "job": planned.arm.job,
            "first_step": planned.first_step,
            "steps": planned.steps,
            "period_ns": planned.period_ns,
            "round": planned.round,
            "load": planned.load,
            "discard_ns": self.config.discard_ms * 1_000_000,
            "discard_steps": planned.max_discarded_steps,
        }
        # In a closed loop the period is 0.
        step_s = _MAX_PERIODS_PER_STEP * planned.period_ns / 1e9 or MAX_STEP_S[self.config.codec]
        timeout_s = _BASE_TIMEOUT_S + planned.steps * step_s
        if self.config.faults != Faults():
            timeout_s *= _FAULTS_TIMEOUT_FACTOR
        with name_switch_rate(self.network.switch, self.clock_ns):
            commands = [
                (worker, {**command, "start_ns": start_ns + clock_ns + offset_ns})
                for worker, clock_ns, offset_ns in zip(
                    self.workers, clocks_ns, planned.offsets_ns or repeat(0, len(self.workers)), strict=True
                )
                if is_expected(worker)
            ]
            self._round = planned.round
            changes = asyncio.ensure_future(self._change_workers(planned))
            try:
                answers = await gather_or_cancel(
                    self.call_while_expected(worker, command, timeout_s, on_progress)
                    for worker, command in commands
                )
                await changes
            finally:
                changes.cancel()
        return [BlockResult.model_validate(answer) for answer in answers if answer is not None]

    async def _change_workers(self, planned: PlannedBlock) -> None:
        """Make the changes that are planned for this round, in the middle of its first block."""
        due = [change for change in self.worker_plan if change.round <= planned.round]
        self.worker_plan = [change for change in self.worker_plan if change.round > planned.round]
        agents = {each.name: each for each in self.workers if isinstance(each, Agent)}
        if due:
            await asyncio.sleep((START_AHEAD_NS + planned.steps * planned.period_ns / 2) / 1e9)
        for change in due:
            if change.change == "died" and agents[change.worker].alive:
                agents[change.worker].kill()
        await gather_or_cancel(agents[change.worker].join() for change in due if change.change == "joined")

    async def call_while_expected(
        self,
        worker: CommandTarget,
        command: Message,
        timeout_s: float = CALL_TIMEOUT_S,
        on_progress: OnProgress | None = None,
    ) -> Message | None:
        """Call a worker; return None if it has died, and the run goes on without it."""
        try:
            return await worker.call(command, timeout_s, on_progress)
        except AgentFailed:
            if is_expected(worker):
                raise
            return None

    async def call_workers(self, command: Message) -> None:
        """Have all workers execute a command, but for those without which the run goes on."""
        await gather_or_cancel(
            self.call_while_expected(worker, command) for worker in self.workers if is_expected(worker)
        )

    def note_worker_change(self, change: WorkerChange) -> None:
        self.record.worker_changes.append(change.model_copy(update={"round": self._round}))

    async def wait_for_workers(self) -> None:
        """Wait until every worker takes part that the run waits for."""
        for worker in self.workers:
            if isinstance(worker, Agent):
                await worker.wait_for_successor()

    @property
    def n_workers(self) -> int:
        return sum(map(is_expected, self.workers))

    def switch_numbers(self, worker: int) -> SwitchNumbers:
        """Return the number of restarts of each home of a worker; 0 if the run does not survive one."""
        network = self.config.leaf_spine
        homes = [SPINE] if network is None else network.homes_of_worker(worker)
        return tuple(map(self._restarts_of_home, homes))

    def _restarts_of_home(self, home: int) -> int:
        return self.switches[home].restarts if self.config.recovery.replay_log else 0

    def home_of_worker(self, worker: int) -> int:
        """Return the only home of a worker."""
        network = self.config.leaf_spine
        [home] = [SPINE] if network is None else network.homes_of_worker(worker)
        return home

    @property
    def _homes(self) -> list[int]:
        """Numbers of the switches with hot sets."""
        network = self.config.leaf_spine
        return [SPINE] if network is None else network.homes

    @property
    def switches(self) -> list[ControlledSwitch]:
        """All switches: the only one, or spines and leaves."""
        return [self.network.switch, *self.network.other_switches]

    async def load(self, keys: Sequence[int]) -> None:
        """Load the hot set for the profile job in training, then for offloaded arms; tell workers of it."""
        arms, profile = self.config.offloaded_arms, profile_arm(self.config.design)
        with self.reporter.phase("load", (1 + len(arms)) * len(keys)) as phase:
            await self._load_under_training(keys, lambda moved_count, _: phase.update(moved_count))
            # Unload the profile job if the hot sets of the arms need its slots.
            if not self.config.has_room_for_profile:
                await self._load_jobs({profile.job: []})
            # The arms' jobs have not started, so the switch can insert one job's entries while the next job's
            # are encoded.
            await self._load_jobs(
                {arm.job: keys for arm in arms}, lambda moved_count, _: phase.update(len(keys) + moved_count)
            )
        network = self.config.leaf_spine
        await self.network.publish_files(self.hot_set_file)
        for arm in (profile, *arms):
            await self._stop_exchanges(arm)
            command: Message = {"cmd": "hint", "job": arm.job, "file": str(self.hot_set_file)}
            if network is not None and network.has_levels:
                command["upper"] = network.count_at_spines(len(keys))
            self.hints.append(command)
            await self.call_workers(command)

    async def _load_under_training(self, keys: Sequence[int], progress: Progress) -> None:
        load_done, profile = asyncio.Event(), profile_arm(self.config.design)

        async def train() -> None:
            while not load_done.is_set():
                await self.run_steps(PlannedBlock(profile, self.take_steps(_TRAINING_STEPS), _TRAINING_STEPS))

        training_task = asyncio.ensure_future(train())
        try:
            await self._load_jobs({profile.job: keys}, progress)
            load_done.set()
            await training_task
        finally:
            # After an incomplete load, workers would wait for ever for the keys that were moving.
            training_task.cancel()
            await asyncio.gather(training_task, return_exceptions=True)

    async def _load_jobs(
        self, hot_sets: Mapping[int, Sequence[int]], progress: Progress = no_progress
    ) -> None:
        async def load() -> None:
            async with self.controller() as controller:
                await controller.load_all(hot_sets, renew=True, progress=progress)

        # Set first, so that a recovery of the switch during the load completes it.
        self.hot_sets.update(hot_sets)
        await self.retry_after_deaths(load)

    async def write_updates(self) -> None:
        await call_all(self.servers, {"cmd": "flush"})
        await self.network.fetch_files("updates-*")

    @asynccontextmanager
    async def controller(self, switch: int | None = None) -> AsyncIterator[Controller]:
        """Return a controller of all hot sets, or of one switch of a network."""
        processes = self.liveness.processes
        opened = (
            own_controller(self.network.address, self.config, processes)
            if switch is None or not self.network.other_switches
            else controller_of(self.config.p4runtime_address(switch), self.config, processes)
        )
        async with self._controller_lock, opened as controller:
            yield controller

    def reader(self, switch: int) -> Controller:
        """Return a controller of one switch that writes nothing, and so goes beside another one."""
        address = self.config.p4runtime_address(switch)
        return Controller(
            address, primary=False, design=self.config.design, limits=self.liveness.processes.limit
        )

    async def retry_after_deaths(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Repeat idempotent work until no process of the run has died during it."""
        while True:
            await self.liveness.wait_until_all_up()
            deaths = self.liveness.deaths
            work_task = asyncio.ensure_future(work())
            death_task = asyncio.ensure_future(self.liveness.wait_for_death(deaths))
            try:
                await asyncio.wait([work_task, death_task], return_when=asyncio.FIRST_COMPLETED)
                if work_task.done() and self.liveness.deaths == deaths:
                    return work_task.result()
            except ControllerError:
                if not await self.liveness.has_new_death(deaths):
                    raise
            finally:
                work_task.cancel()
                death_task.cancel()
                await asyncio.gather(work_task, death_task, return_exceptions=True)

    def restarts(self) -> dict[str, int]:
        processes: list[ControlledSwitch | Agent] = [*self.switches, *self.servers]
        all_restarts = {each.name: each.restarts for each in processes}
        return {name: restarts for name, restarts in all_restarts.items() if restarts}

    async def staleness(self) -> dict[str, Staleness]:
        answers = await call_all(self.servers, {"cmd": "stats"})
        staleness_by_arm = {}
        for arm in self.config.measured_arms:
            # `copies` has, by job, the ages of the copies that the server has published.
            ages = [answer["copies"].get(str(arm.job)) for answer in answers if "copies" in answer]
            if any(ages):
                staleness_by_arm[arm.name] = Staleness.of(each for each in ages if each)
        return staleness_by_arm

    async def server_use(self) -> dict[str, ServerUse]:
        answers = await call_all(self.servers, {"cmd": "stats"})
        return {arm.name: _sum_server_use(answers, arm.job) for arm in self.config.every_arm}

    async def program_use(self) -> ProgramUse | None:
        # The counters of several switches do not tell which CPU their ports' frames were processed on.
        if self.record.datapath != "kernel" or self.network.other_switches:
            return None
        counters = await self.network.switch.counters()
        if counters is None:
            return None
        return self.network.program_use(counters["ports"], self.placement)

    async def read_machine(self) -> MachineCounters:
        return await self.network.read_contention(self.cpus)

    async def flush_workers(self, workers: Sequence[CommandTarget]) -> list[Message]:
        numbers, settle = [*map(self._restarts_of_home, self._homes)], self._controller_ops.settle
        answers = await call_all(workers, {"cmd": "flush"})
        # Servers may apply replayed updates only when all workers have replayed theirs.
        if settle is not None and len(workers) == len(self.workers):
            for home, restarts in zip(self._homes, numbers, strict=True):
                if restarts > self._settled.get(home, 0):
                    async with self.controller(home) as controller:
                        for arm in self.config.every_arm:
                            await settle(controller, arm.job, EPOCH + restarts)
                self._settled[home] = restarts
        return answers

    async def new_operations(self) -> pl.DataFrame:
        await self.flush_workers([worker for worker in self.workers if is_expected(worker)])
        await self.network.fetch_files("operations-worker-*.parquet")
        files = set(self.parts.glob("operations-worker-*.parquet")) - self._read_parts
        self._read_parts |= files
        frames = [pl.read_parquet(file) for file in files]
        operations = pl.concat(frames) if frames else pl.DataFrame(schema=OPERATIONS)
        return operations.with_columns(is_measured(OPERATIONS_TIME, self.record.repeated_spans_us()))

    async def switch_threads(self) -> dict[int, int]:
        switch = self.network.switch
        pids = {} if switch.pid is None else {switch.name: switch.pid}
        return (await self.network.read_processes(read_cpu_ns_by_thread, pids)).get(switch.name, {})

    async def run_queues_ns(self) -> dict[str, int]:
        return await self.network.read_processes(run_queue_ns, self.pids())

    async def peak_memory_mb(self) -> dict[str, float]:
        return await self.network.read_processes(peak_memory_mb, self.pids())

    def pids(self) -> dict[str, int]:
        agents = (each for each in (*self.workers, *self.servers) if isinstance(each, Agent))
        pids = {each.name: each.pid for each in agents if each.alive}
        for switch in self.switches:
            if switch.pid is not None:
                pids[switch.name] = switch.pid
        return pids


def is_expected(worker: CommandTarget) -> bool:
    """Return whether a block includes a worker: not if it has died, and the run goes on without it."""
    return not isinstance(worker, Agent) or worker.is_expected


_JOB_FIELDS = ("packets", "bytes", "proc_wall_ns", "proc_cpu_ns")
_DURABILITY_FIELDS = ("commits", "commit_ns", "delayed", "delay_ns")


def _sum_server_use(answers: list[Message], job: int) -> ServerUse:
    job_uses = [answer["jobs"][str(job)] for answer in answers]
    return ServerUse(
        cpu_s=sum(answer["cpu_s"] for answer in answers),
        **{name: sum(use[name] for use in job_uses) for name in _JOB_FIELDS},
        bursts=sum(answer["bursts"] for answer in answers),
        waits=sum(answer["waits"] for answer in answers),
        **{name: sum(answer["durability"][name] for answer in answers) for name in _DURABILITY_FIELDS},
    )
