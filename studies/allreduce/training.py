"""Training of R1's hot set by synchronous and by asynchronous designs, on the same mini-batches.

The model has the hot parameters only, and of each sample the hot features. In asynchronous designs, where the
switch or servers store parameters, a worker pulls those of its mini-batch and pushes their deltas. In
synchronous designs each worker has all parameters, and a push is an all-reduce of a vector as long as the
model, in which all workers take part. All designs add the same fixed-point deltas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from controller.designs import CONTROL
from experiment.config import EPOCH
from foundation.designs import atp, hotset, none, psdense, ring, switchml
from foundation.designs.interface import Arm, Design, Hosts
from foundation.settings import Strict
from hosts.config import WorkerCost
from hosts.keys import KeySpace
from hosts.model import LogisticRegression
from hosts.model.hyperparameters import chance_loss, choose
from hosts.worker.trainer import Schedule, Trainer
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Samples, Trace
from simulator.costs import Hosts as Costs
from simulator.costs import Network
from simulator.drive import WorkerClock, drive
from simulator.ledger import PushLedger
from simulator.simulated_switch import SimulatedSwitch
from simulator.world import SimulatedNetwork
from studies.allreduce.training_result import LossCurve, TrainingResult

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        none.NONE, hotset.OFFLOAD, switchml.PUBLISHED, switchml.CHECKED, atp.PUBLISHED, psdense.PSDENSE,
        ring.RING,
    )
}  # fmt: skip
DESIGNS: dict[str, Design] = {
    each.name: each
    for each in (none.DESIGN, hotset.DESIGN, switchml.DESIGN, atp.DESIGN, psdense.DESIGN, ring.DESIGN)
}  # fmt: skip
SYNCHRONOUS = {switchml.NAME, atp.NAME, psdense.NAME, ring.NAME}
BINS = 50


class Training(Strict):
    arm: str
    gbit: float
    workers: int
    servers: int
    steps: int
    compute_us: float = 0.0
    """Minimum computing time of a step."""
    straggler: float = 1.0
    """Slow-down of the first worker's computing."""
    seed: int = 1


def train(job: Training, network: Network, costs: Costs, shape: Shape = R1) -> TrainingResult:
    """Train a model of zeros, with workers that start at once and begin a step when their last one ends."""
    arm = ARMS[job.arm]
    design = DESIGNS[arm.design]
    trace = restrict_to_hot(generate(shape, job.workers, job.steps, job.seed), shape.hot)
    assert trace.samples is not None
    simulated = _simulation(design, arm, trace, job, network, costs)
    chosen = choose(trace)
    clocks, recorder = [WorkerClock() for _ in simulated.clients], PushLedger(trace.space.size)
    trainers = [
        Trainer(
            w + 1, client, trace, LogisticRegression(chosen.scale, chosen.learning_rate),
            recorder.for_worker(), Schedule(0, job.steps, 0, 0), clocks[w].read,
            WorkerCost(compute_ns=round(1e3 * job.compute_us * (job.straggler if w == 0 else 1.0))),
            clocks[w].spin,
        )
        for w, client in enumerate(simulated.clients)
    ]  # fmt: skip

    def drain_logs(agent: int) -> None:
        if agent < job.workers:
            simulated.clients[agent].take_records()
        else:
            simulated.take_contacts(agent - job.workers)

    drive(simulated, trainers, clocks, costs, drain_logs)
    steps = job.workers * job.steps
    steps_of = [[of for of in each.operations if of.op == "step"] for each in trainers]
    end_times = np.array([[of.end for of in each] for each in steps_of])
    losses = np.array([each.losses for each in trainers])
    # Count the steps that begin while all workers are at work.
    first_end = end_times[:, -1].min()
    is_counted = np.array([[of.start < first_end for of in each] for each in steps_of])
    cables = (simulated.world.up, simulated.world.down)
    durations = [of.end - of.start for each in steps_of for of in each]
    return TrainingResult(
        waits=design.name in SYNCHRONOUS,
        keys_per_step=trace.lanes / steps,
        parameters=trace.space.size,
        step_us=float(np.mean(durations)) / 1e3,
        steps_per_s=1e9 * np.count_nonzero(is_counted) / float(first_end),
        bytes_per_step=sum(int(link.bytes[: job.workers].sum()) for link in cables) / steps,
        packets_per_step=sum(int(link.frames[: job.workers].sum()) for link in cables) / steps,
        server_packets_per_step=sum(int(link.frames[job.workers :].sum()) for link in cables) / steps,
        retransmissions=sum(simulated.retransmissions()),
        chance_loss=chance_loss(trace.samples),
        loss_curve=loss_curve(end_times[is_counted], losses[is_counted]),
    )


def loss_curve(end_times: NDArray[np.int64], losses: NDArray[np.float64]) -> LossCurve:
    """Average losses[n] in up to BINS bins, in the order of the steps' end_times[n] in ns."""
    order = np.argsort(end_times, kind="stable")
    bins = np.array_split(order, min(BINS, len(order)))
    return LossCurve(
        step=np.cumsum([len(each) for each in bins]).tolist(),
        ms=[float(end_times[each].max()) / 1e6 for each in bins],
        loss=[float(losses[each].mean()) for each in bins],
    )


def restrict_to_hot(trace: Trace, size: int) -> Trace:
    assert trace.samples is not None
    updates = np.bincount(trace.position, minlength=trace.space.size)
    hot = np.sort(np.argsort(-updates, kind="stable")[: min(size, np.count_nonzero(updates))])
    place = np.full(trace.space.size, -1)
    place[hot] = np.arange(len(hot))
    positions = place[trace.position]
    is_hot = positions >= 0
    # The number of hot positions before each position of the trace.
    hot_before = np.append(0, np.cumsum(is_hot))
    samples, starts = trace.samples, trace.key_start
    batch = np.repeat(np.arange(len(starts) - 1), np.diff(samples.entry_start))
    at = starts[batch] + samples.column
    is_entry = is_hot[at]
    sample = np.repeat(np.arange(len(samples.label)), samples.length)[is_entry]
    column = hot_before[at] - hot_before[starts[batch]]
    return replace(
        trace,
        space=KeySpace(len(hot)),
        key_start=hot_before[starts],
        position=positions[is_hot].astype(np.uint32),
        samples=Samples(
            batch_start=samples.batch_start,
            label=samples.label,
            length=np.bincount(sample, minlength=len(samples.label)).astype(np.uint32),
            entry_start=np.append(0, np.cumsum(is_entry))[samples.entry_start],
            column=column[is_entry].astype(np.uint32),
            x=None if samples.x is None else samples.x[is_entry],
        ),
    )


def _simulation(
    design: Design, arm: Arm, trace: Trace, job: Training, network: Network, costs: Costs
) -> SimulatedNetwork:
    switch = SimulatedSwitch(design)
    switch.install(CONTROL.for_design(design).rows(Hosts(job.workers, job.servers), [arm], EPOCH))
    simulated = SimulatedNetwork(
        design, arm, switch, trace.space, trace.largest_batch, job.workers, job.servers, network, costs,
        job.seed,
    )  # fmt: skip
    if arm.settings.aggregates and design.name not in SYNCHRONOUS:
        keys: NDArray[np.uint64] = trace.space.all()
        switch.load(arm.job, keys.tolist())
        for store in simulated.stores:
            switch.state_ops.release_to_switch(store, keys)
        for client in simulated.clients:
            client.hint(keys)
    if design.name in SYNCHRONOUS:
        simulated.world.calls.header.workers = job.workers
    return simulated
