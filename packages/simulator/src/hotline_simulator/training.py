"""Training on a simulated network; each worker begins a step as soon as its previous step has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.controller_ops import control_of
from experiment.run_config import EPOCH
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.optimisers import TableOptimiser
from foundation.protocol.codec import Keys
from foundation.settings import Strict
from hosts.agent_config import RunSettings, WorkerCost
from hosts.keys import KeySpace
from hosts.model import Model
from hosts.workload.trace import Samples, Trace
from hotline_agents.worker.trainer import StepSchedule, Trainer
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.drive import WorkerClock, drive
from hotline_simulator.ledger import NoLedger
from hotline_simulator.simulated_switch import SimulatedSwitch
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

BINS = 50  # of a loss curve


class LossCurve(Strict):
    """Mean losses of consecutive steps that began before the first worker finished its last step."""

    step: list[float]
    """Number of mini-batches that all workers together have finished."""
    ms: list[float]  # simulated time at which the last of these mini-batches ended
    loss: list[float]
    """Mean log loss in nats, each before its update."""


class ClosedLoopResult(NamedTuple):
    durations: list[int]  # time of each step, ns
    first_end: int  # end of the last step of the worker that finishes first, ns
    counted_end_times: NDArray[np.int64]  # [n]: ends of the steps that begin before `first_end`, ns
    counted_losses: NDArray[np.float64]  # [n]: losses of the steps that begin before `first_end`

    @property
    def steps_per_s(self) -> float:
        return 1e9 * len(self.counted_end_times) / self.first_end

    @property
    def curve(self) -> LossCurve:
        return loss_curve(self.counted_end_times, self.counted_losses)


def trace_of_samples(
    name: str, workers: int, steps: int, parameters: int, sizes: NDArray[np.int64],
    positions: NDArray[np.uint32], columns: NDArray[np.uint32], label: NDArray[np.bool_],
    x: NDArray[np.float32] | None = None,
) -> Trace:  # fmt: skip
    """Return a trace of mini-batches with equally many samples, of equally many features.

    `columns` and `x` are [samples, features]; `sizes` and `positions` are those of `distinct_columns`.
    """
    samples, features = columns.shape
    starts = np.arange(workers * steps + 1) * (samples // (workers * steps))
    return Trace(
        name, workers, steps, KeySpace(parameters), np.append(0, np.cumsum(sizes)), positions,
        Samples(
            batch_start=starts, label=label.astype(np.uint8), length=np.full(samples, features, np.uint32),
            entry_start=starts * features, column=columns.ravel(), x=None if x is None else x.ravel(),
        ),
    )  # fmt: skip


def make_network(
    design: Design, arm: Arm, trace: Trace, workers: int, servers: int, network: Network, costs: HostCosts,
    seed: int, hot_keys: Keys | None = None, tables: Sequence[TableOptimiser] = (),
    settings: RunSettings | None = None,
) -> SimulatedNetwork:  # fmt: skip
    """Make an arm's network, before time 0, with `hot_keys` in the switch."""
    switch = SimulatedSwitch(design)
    switch.install(control_of(design).rows(SwitchHosts(workers, servers), [arm], EPOCH))
    system = SimulatedSystem(
        design=design, arm=arm, space=trace.space, largest_batch=trace.largest_batch, workers=workers,
        servers=servers, network=network, hosts=costs, seed=seed, tables=tables,
        settings=settings or RunSettings(),
    )  # fmt: skip
    simulated_network = SimulatedNetwork(system, switch)
    if hot_keys is not None:
        simulated_network.load_hot_set(hot_keys)
    return simulated_network


def train_closed_loop(
    simulated_network: SimulatedNetwork,
    trace: Trace,
    models: Sequence[Model],
    costs: HostCosts,
    steps: range,
    compute_costs: Sequence[WorkerCost],
) -> ClosedLoopResult:
    """Train each worker's model on these steps of the trace, from time 0 on."""
    clocks = [WorkerClock() for _ in simulated_network.clients]
    trainers = [
        Trainer(
            index + 1, client, trace, models[index], NoLedger(),
            StepSchedule(steps.start, len(steps), start_ns=0, period_ns=0), clocks[index].read,
            compute_costs[index], clocks[index].spin,
        )
        for index, client in enumerate(simulated_network.clients)
    ]  # fmt: skip

    def drain_logs(agent: int) -> None:  # workers are numbered first, then servers
        if agent < len(trainers):
            simulated_network.clients[agent].take_records()
        else:
            simulated_network.collect_connection_records(agent - len(trainers))

    drive(simulated_network, trainers, clocks, costs, drain_logs)
    steps_by_worker = [
        [operation for operation in each.operations if operation.op == "step"] for each in trainers
    ]
    end_times = np.array([[operation.end for operation in each] for each in steps_by_worker])
    losses = np.array([each.losses for each in trainers])
    # Count the steps that begin while all workers are at work.
    first_end = int(end_times[:, -1].min())
    is_counted = np.array([[operation.start < first_end for operation in each] for each in steps_by_worker])
    durations = [operation.end - operation.start for each in steps_by_worker for operation in each]
    return ClosedLoopResult(durations, first_end, end_times[is_counted], losses[is_counted])


def loss_curve(end_times: NDArray[np.int64], losses: NDArray[np.float64]) -> LossCurve:
    """Average losses[n] in up to BINS bins, in the order of the steps' end_times[n] in ns."""
    order = np.argsort(end_times, kind="stable")
    bins = np.array_split(order, min(BINS, len(order)))
    return LossCurve(
        step=np.cumsum([len(each) for each in bins]).tolist(),
        ms=[float(end_times[each].max()) / 1e6 for each in bins],
        loss=[float(losses[each].mean()) for each in bins],
    )
