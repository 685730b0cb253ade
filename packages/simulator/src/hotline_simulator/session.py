"""A run under way in virtual time: a network and a switch for each arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from analysis import record as records
from analysis.record import ProgramUse, ServerUse
from experiment.design_parts import rows_of_all_hosts
from experiment.phases.workload import table_optimisers
from experiment.progress import Reporter
from experiment.session import (
    HOT_SET_FILE,
    START_AHEAD_NS,
    BlockResult,
    MachineCounters,
    OnProgress,
    PlannedBlock,
    Session,
)
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from hosts.model import LogisticRegression, Model, SyntheticGradient
from hosts.model.hyperparameters import Hyperparameters
from hosts.workload.trace import Trace
from hotline_agents.worker.logs import Origin
from hotline_agents.worker.trainer import StepSchedule, Trainer
from hotline_simulator.config import SimulationConfig
from hotline_simulator.drive import WorkerClock, drive, pass_time
from hotline_simulator.leaf_spine_switches import Switches, build_switches
from hotline_simulator.ledger import NoLedger, SimulatedPushLedger
from hotline_simulator.logs import BlockLog, SimulatedLogs
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

RPC_S = 10e-6
"""CPU time, s, that a budget assumes for simulating an RPC, including its logs."""


class ClosedLoop(NamedTuple):
    rate: float  # steps/s of all workers together
    workers_busy: float  # share of time that a worker uses the CPU, on average
    servers_busy: float
    communication: float  # share of step time in pulls and pushes
    pull_us: float  # mean time of a pull
    server_packets: float  # number of packets that reach servers, by step of a worker
    uplink_bytes: float  # bytes that racks or leaves send to and get from the P4 switch, by step of a worker


@dataclass(slots=True)
class RunningArm:
    network: SimulatedNetwork
    switch: Switches
    ledger: SimulatedPushLedger


@dataclass(slots=True, kw_only=True)
class SimulatedSession(Session):
    """A session in which every arm has its own network and switch; all of them share one clock."""

    config: SimulationConfig
    arms: dict[str, RunningArm]
    trace: Trace
    models: Sequence[Model]
    logs: SimulatedLogs
    now_ns: int = 0
    _closed_loops: dict[str, ClosedLoop] = field(default_factory=dict)

    def clock_ns(self) -> int:
        return self.now_ns

    def budget_clock_s(self) -> float:
        """Return the CPU time assumed for all RPCs, s: so a run does not depend on the machine."""
        return self.rpcs() * RPC_S

    @asynccontextmanager
    async def active(self, arm: Arm) -> AsyncIterator[None]:
        network = self.arms[arm.name].network
        pass_time(network, self.now_ns)
        network.publish()
        yield
        network.hold()

    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        arm, period_ns = planned.arm, planned.period_ns
        network, ledger = self.arms[arm.name].network, self.arms[arm.name].ledger
        pass_time(network, self.now_ns)
        starts = [
            self.now_ns + START_AHEAD_NS + offset
            for offset, _ in zip(planned.offsets_ns or repeat(0), network.clients, strict=False)
        ]
        clocks = [WorkerClock(self.now_ns) for _ in network.clients]
        # Updates are reconciled with logs only.
        ledgers = [ledger.for_worker() if self.logs.is_wanted else NoLedger() for _ in network.clients]
        trainers = [
            Trainer(
                w + 1, client, self.trace, self.models[w], ledgers[w],
                StepSchedule(planned.first_step, planned.steps, starts[w], period_ns), clocks[w].read,
                self.config.worker, clocks[w].spin,
            )
            for w, client in enumerate(network.clients)
        ]  # fmt: skip
        log, begin_ns = BlockLog(network), self.now_ns + START_AHEAD_NS
        worker_ns_before, retransmissions_before = network.worker_used_ns(), network.retransmissions()
        server_ns_before = network.server_used_ns()
        packets_before, uplink_bytes_before = _count_traffic(network)
        drive(network, trainers, clocks, self.config.hosts, log.take)
        self.now_ns = network.now
        self.reporter.set_note(f"at {self.now_ns / 1e9:,.3f} s of simulated time")
        is_closed_loop = not period_ns
        if is_closed_loop:
            duration_ns = self.now_ns - begin_ns
            packets, uplink_bytes = _count_traffic(network)
            steps = sum(len(trainer.losses) for trainer in trainers)
            self._closed_loops[arm.name] = ClosedLoop(
                rate=_steps_per_s(trainers),
                workers_busy=(sum(network.worker_used_ns()) - sum(worker_ns_before))
                / (len(trainers) * duration_ns),
                servers_busy=(network.server_used_ns() - server_ns_before)
                / (len(network.servers) * duration_ns),
                communication=_communication_share(trainers),
                pull_us=_pull_us(trainers),
                server_packets=(packets - packets_before) / steps,
                uplink_bytes=(uplink_bytes - uplink_bytes_before) / steps,
            )
        measured_step = planned.first_step + planned.max_discarded_steps
        # `SimulatedLogs.write` sets `worker` and `measured_from` of each row.
        origin = Origin(
            worker=0, job=arm.job, arm=arm.name, round=planned.round, load=planned.load, measured_from=0,
            measured_step=measured_step,
        )  # fmt: skip
        measured_from = [start + self.config.discard_ms * 1_000_000 for start in starts]
        self.logs.write(log, origin, measured_from, [trainer.operations for trainer in trainers])
        worker_ns, retransmissions = network.worker_used_ns(), network.retransmissions()
        return [
            BlockResult(
                steps=len(trainer.losses),
                max_lateness_ns=trainer.max_lateness_ns,
                cpu_s=(worker_ns[w] - worker_ns_before[w]) / 1e9,
                retransmissions=retransmissions[w] - retransmissions_before[w],
                loss=trainer.loss,
            )
            for w, trainer in enumerate(trainers)
        ]

    async def server_use(self) -> dict[str, ServerUse]:
        names = [arm.name for arm in self.config.every_arm]
        return {
            name: _server_use_of(self.arms[name].network) if name in self.arms else ServerUse()
            for name in names
        }

    async def program_use(self) -> ProgramUse | None:
        return None

    async def read_machine(self) -> MachineCounters:
        return MachineCounters(at_ms=self.now_ns / 1e6)

    def restarts(self) -> dict[str, int]:
        return {}

    async def run_queues_ns(self) -> dict[str, int]:
        totals = Counter[str]()
        for arm in self.arms.values():
            totals.update(arm.network.queued_ns())
        return dict(totals)

    async def new_operations(self) -> pl.DataFrame:
        return self.logs.new_operations()

    def rpcs(self) -> int:
        return self.logs.rpcs

    def rate_of(self, arm: Arm) -> float:
        return self._closed_loops[arm.name].rate

    def simulated_arms(self) -> dict[str, records.SimulatedArm]:
        return {
            arm.name: _simulated_arm(self._closed_loops[arm.name], self.arms[arm.name].network)
            for arm in self.config.measured_arms
            if arm.name in self._closed_loops
        }

    async def load(self, keys: Sequence[int]) -> None:
        """Load the hot set without simulating the table writes, because the arms have had no event yet."""
        hot_keys = np.array(keys, np.uint64)
        arms = self.config.offloaded_arms
        with self.reporter.phase("load", len(arms)) as phase:
            for loaded_arms, arm in enumerate(arms, start=1):
                self.arms[arm.name].network.load_hot_set(hot_keys)
                self.arms[arm.name].network.hold()
                phase.update(loaded_arms)

    async def write_updates(self) -> None:
        self.logs.write_servers([arm.network for arm in self.arms.values()])


def open_session(
    config: SimulationConfig,
    run: Path,
    record: records.RunRecord,
    reporter: Reporter,
    trace: Trace,
    training: Hyperparameters | None,
    wants_logs: bool = True,
) -> SimulatedSession:
    """Build a network for each arm; `training` is None for a model that is not trained."""
    # Arms that are not measured only profile, for runs that are not given a hot set.
    has_hot_set = (run / HOT_SET_FILE).exists()
    unmeasured_arms = [arm for arm in config.every_arm if not (arm.is_measured or has_hot_set)]
    return SimulatedSession(
        config=config,
        run=run,
        record=record,
        reporter=reporter,
        arms={
            arm.name: _build_arm(config, arm, trace, training)
            for arm in (*unmeasured_arms, *config.measured_arms)
        },
        trace=trace,
        models=[_make_model(config, training, trace.space) for _ in range(config.workers)],
        logs=SimulatedLogs(run / "parts", config.servers, wants_logs),
    )


def _build_arm(
    config: SimulationConfig, arm: Arm, trace: Trace, training: Hyperparameters | None
) -> RunningArm:
    chosen_design = design(config.design)
    lanes = config.network.switch_lanes if arm.settings.aggregates or arm.settings.proxies else LANES
    topology = config.leaf_spine
    if topology is not None and not (arm.settings.aggregates or arm.settings.proxies):
        # Without a hot set no packet has to pass a spine between two hosts of a leaf.
        topology = replace(topology, place="leaves")
    switch = build_switches(chosen_design, topology, config.network.traffic_manager, lanes)
    switch.install(rows_of_all_hosts(config, [arm]))
    system = SimulatedSystem(
        design=chosen_design, arm=arm, space=trace.space, largest_batch=trace.largest_batch,
        workers=config.workers, servers=config.servers, network=config.network, hosts=config.hosts,
        seed=config.seed, window=config.window, tables=table_optimisers(config, training), settings=config,
        topology=topology,
    )  # fmt: skip
    network = SimulatedNetwork(system, switch)
    for client in network.clients:
        client.set_worker_count(config.workers)
        client.limit_lanes(min(lanes + config.network.cold_lanes, LANES), lanes)
    return RunningArm(network, switch, SimulatedPushLedger(trace.space, chosen_design.combination))


def _make_model(config: SimulationConfig, training: Hyperparameters | None, space: KeySpace) -> Model:
    if training is None:
        return SyntheticGradient(config.seed)
    return LogisticRegression(training.scale, training.learning_rate, config.dim, space)


_OPERATIONS = ("pull", "push", "step")


def _operation_ns(trainer: Trainer) -> dict[str, int]:
    totals, n = dict.fromkeys(_OPERATIONS, 0), len(_OPERATIONS)
    # A step has `n` operations: leave out the first step and the last, as `_count_middle_steps` does.
    for record in trainer.operations[n:-n] or trainer.operations:
        totals[record.op] += record.end - record.start
    return totals


def _count_middle_steps(trainer: Trainer) -> int:
    """Count steps without the first, which all workers begin at once, and the last, which some end early."""
    steps = len(trainer.losses)
    return steps - 2 if steps > 2 else steps


def _steps_per_s(trainers: Sequence[Trainer]) -> float:
    return sum(1e9 * _count_middle_steps(trainer) / _operation_ns(trainer)["step"] for trainer in trainers)


def _communication_share(trainers: Sequence[Trainer]) -> float:
    totals = [_operation_ns(trainer) for trainer in trainers]
    return sum(ns["pull"] + ns["push"] for ns in totals) / sum(ns["step"] for ns in totals)


def _pull_us(trainers: Sequence[Trainer]) -> float:
    steps = sum(map(_count_middle_steps, trainers))
    return sum(_operation_ns(trainer)["pull"] for trainer in trainers) / steps / 1e3


def _count_traffic(network: SimulatedNetwork) -> tuple[int, int]:
    """Return the packets that have reached servers, and the bytes on uplinks."""
    world = network.world
    packets = int(world.down.delivered[len(network.clients) :].sum())
    return packets, int(world.racks_up.bytes.sum() + world.racks_down.bytes.sum())


def _simulated_arm(closed_loop: ClosedLoop, network: SimulatedNetwork) -> records.SimulatedArm:
    world = network.world
    cables = (world.up, world.down, world.racks_up, world.racks_down)
    frame_counts = {
        name: sum(int(links[name].sum()) for links in cables)
        for name in ("frames", "dropped", "lost", "marked")
    }
    return records.SimulatedArm(
        **{name: share for name, share in closed_loop._asdict().items() if name != "rate"},
        **frame_counts,
        longest_kb=max(int(links.longest_queue.max()) for links in cables if len(links)) / 1024,
        retransmissions=sum(network.retransmissions()),
    )


def _server_use_of(network: SimulatedNetwork) -> ServerUse:
    counters = {
        name: sum(int(server.jobs[name].sum()) for server in network.servers)
        for name in ("packets", "bytes", "proc_wall_ns", "proc_cpu_ns")
    }
    return ServerUse(
        **counters,
        cpu_s=network.server_used_ns() / 1e9,
        **{name: network.count_of_servers(name) for name in ("bursts", "waits")},
    )
