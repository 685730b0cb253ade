"""Training of R1's hot set by synchronous and by asynchronous designs, on the same mini-batches.

The model has the hot parameters only, and samples have their hot features only. In asynchronous designs,
where the switch or servers store parameters, a worker pulls its mini-batch's parameters and pushes deltas.
In synchronous designs each worker has all parameters, and a push is an all-reduce by all workers of a vector
as long as the model. All designs add the same fixed-point deltas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foundation.designs import atp, hotset, none, psdense, ring, switchml
from foundation.designs.interface import Arm, Design
from foundation.settings import Strict
from hosts.config import WorkerCost
from hosts.keys import KeySpace
from hosts.model import LogisticRegression
from hosts.model.hyperparameters import chance_loss, choose
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Samples, Trace
from simulator.costs import Hosts as Costs
from simulator.costs import Network
from simulator.world import SimulatedNetwork
from studies.allreduce.training_result import TrainingResult
from studies.simulated_training import make_network, train_closed_loop

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


class Training(Strict):
    arm: str
    gbit: float
    workers: int
    servers: int
    steps: int
    compute_us: float = 0.0  # of a step
    straggler: float = 1.0  # factor of the first worker's compute time
    seed: int = 1


def train(job: Training, network: Network, costs: Costs, shape: Shape = R1) -> TrainingResult:
    """Train a model from zero; workers start together, and each begins a step when its previous step ends."""
    arm = ARMS[job.arm]
    design = DESIGNS[arm.design]
    trace = restrict_to_hot_keys(generate(shape, job.workers, job.steps, job.seed), shape.hot)
    assert trace.samples is not None
    simulated_network = _make_simulation(design, arm, trace, job, network, costs)
    hyperparameters = choose(trace)
    models = [
        LogisticRegression(hyperparameters.scale, hyperparameters.learning_rate)
        for _ in simulated_network.clients
    ]
    compute_us = [job.compute_us * (job.straggler if w == 0 else 1.0) for w in range(job.workers)]
    outcome = train_closed_loop(
        simulated_network, trace, models, costs, range(job.steps),
        [WorkerCost(compute_ns=round(1e3 * us)) for us in compute_us],
    )  # fmt: skip
    steps = job.workers * job.steps
    cables = (simulated_network.world.up, simulated_network.world.down)
    return TrainingResult(
        waits=design.name in SYNCHRONOUS,
        keys_per_step=trace.lanes / steps,
        parameters=trace.space.size,
        step_us=float(np.mean(outcome.durations)) / 1e3,
        steps_per_s=outcome.steps_per_s,
        bytes_per_step=sum(int(link.bytes[: job.workers].sum()) for link in cables) / steps,
        packets_per_step=sum(int(link.frames[: job.workers].sum()) for link in cables) / steps,
        server_packets_per_step=sum(int(link.frames[job.workers :].sum()) for link in cables) / steps,
        retransmissions=sum(simulated_network.retransmissions()),
        chance_loss=chance_loss(trace.samples),
        loss_curve=outcome.curve,
    )


def restrict_to_hot_keys(trace: Trace, size: int) -> Trace:
    assert trace.samples is not None
    updates = np.bincount(trace.position, minlength=trace.space.size)
    hot_positions = np.sort(np.argsort(-updates, kind="stable")[: min(size, np.count_nonzero(updates))])
    new_position = np.full(trace.space.size, -1)
    new_position[hot_positions] = np.arange(len(hot_positions))
    positions = new_position[trace.position]
    is_hot = positions >= 0
    # An entry is a sample's feature; its `column` counts from its mini-batch's first access (`starts`).
    # The number of hot positions before each position of the trace.
    hot_before = np.append(0, np.cumsum(is_hot))
    samples, starts = trace.samples, trace.key_start
    batch_of_entry = np.repeat(np.arange(len(starts) - 1), np.diff(samples.entry_start))
    access_of_entry = starts[batch_of_entry] + samples.column
    is_hot_entry = is_hot[access_of_entry]
    sample_of_entry = np.repeat(np.arange(len(samples.label)), samples.length)[is_hot_entry]
    column = hot_before[access_of_entry] - hot_before[starts[batch_of_entry]]
    return replace(
        trace,
        space=KeySpace(len(hot_positions)),
        key_start=hot_before[starts],
        position=positions[is_hot].astype(np.uint32),
        samples=Samples(
            batch_start=samples.batch_start,
            label=samples.label,
            length=np.bincount(sample_of_entry, minlength=len(samples.label)).astype(np.uint32),
            entry_start=np.append(0, np.cumsum(is_hot_entry))[samples.entry_start],
            column=column[is_hot_entry].astype(np.uint32),
            x=None if samples.x is None else samples.x[is_hot_entry],
        ),
    )


def _make_simulation(
    design: Design, arm: Arm, trace: Trace, job: Training, network: Network, costs: Costs
) -> SimulatedNetwork:
    has_hot_set = arm.settings.aggregates and design.name not in SYNCHRONOUS
    simulated_network = make_network(
        design, arm, trace, job.workers, job.servers, network, costs, job.seed,
        hot_keys=trace.space.all() if has_hot_set else None,
    )  # fmt: skip
    if design.name in SYNCHRONOUS:
        # The number of workers that add up, as `set_worker_count` of a client sets it.
        simulated_network.world.calls.header.workers = job.workers
    return simulated_network
