"""Training of R1's hot set by synchronous and by asynchronous designs, on the same mini-batches.

The model has the hot parameters only, and samples have their hot features only. In asynchronous designs,
where the switch or servers store parameters, a worker pulls its mini-batch's parameters and pushes deltas.
In synchronous designs each worker has all parameters, and a push is an all-reduce by all workers of a vector
as long as the model. All designs add the same fixed-point deltas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foundation.designs import hotset, none
from foundation.designs.interface import Arm
from foundation.designs.registry import design as find_design
from foundation.settings import Strict
from hosts.agent_config import WorkerCost
from hosts.keys import KeySpace
from hosts.model import LogisticRegression
from hosts.model.hyperparameters import chance_loss, choose
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.hottest import restrict_to_hottest
from hosts.workload.trace import Trace
from hotline_allreduce.atp import design as atp
from hotline_allreduce.psdense import design as psdense
from hotline_allreduce.ring import design as ring
from hotline_allreduce.switchml import design as switchml
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.training import LossCurve, make_network, train_closed_loop

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        none.NONE, hotset.OFFLOAD, switchml.PUBLISHED, switchml.CHECKED, atp.PUBLISHED, psdense.PSDENSE,
        ring.RING,
    )
}  # fmt: skip
_LAST_SHARE = 0.1  # share of a loss curve whose mean is `last_loss`
SMOOTHED_BINS = 5  # bins of a loss curve that are averaged, since the losses of few mini-batches are noisy


class AllReduceTraining(Strict):
    arm: str
    gbit: float
    workers: int
    servers: int
    steps: int
    compute_us: float = 0.0  # of a step
    straggler: float = 1.0  # factor of the first worker's compute time
    seed: int = 1


class AllReduceTrainingResult(Strict):
    waits: bool  # whether workers wait for each other
    keys_per_step: float
    parameters: int
    step_us: float
    """Mean time from the start of a worker's pull to the end of its push."""
    steps_per_s: float
    """Steps/s of all workers, until the first worker finishes its last step."""
    bytes_per_step: float
    """Frame bytes per step on a worker's cable, in both directions."""
    packets_per_step: float
    server_packets_per_step: float
    retransmissions: int
    chance_loss: float  # loss of a model that knows only the labels' frequencies
    loss_curve: LossCurve

    @property
    def last_loss(self) -> float:
        losses = self.loss_curve.loss
        last_losses = losses[-max(1, int(_LAST_SHARE * len(losses))) :]
        return sum(last_losses) / len(last_losses)

    def ms_to_loss(self, loss: float) -> float | None:
        """Return the ms until the mean of the last `SMOOTHED_BINS` losses is at most `loss`, or None."""
        losses, times = self.loss_curve.loss, self.loss_curve.ms
        for end in range(SMOOTHED_BINS, len(losses) + 1):
            if sum(losses[end - SMOOTHED_BINS : end]) / SMOOTHED_BINS <= loss:
                return times[end - 1]
        return None


def train(
    job: AllReduceTraining, network: Network, costs: HostCosts, shape: Shape = R1
) -> AllReduceTrainingResult:
    """Train a model from zero; workers start together, and each begins a step when its previous step ends."""
    arm = ARMS[job.arm]
    design = find_design(arm.design)
    trace = restrict_to_hot_keys(generate(shape, job.workers, job.steps, job.seed), shape.hot)
    assert trace.samples is not None
    has_hot_set = arm.settings.aggregates and not design.is_lockstep
    simulated_network = make_network(
        design, arm, trace, job.workers, job.servers, network, costs, job.seed,
        hot_keys=trace.space.all() if has_hot_set else None,
    )  # fmt: skip
    if design.is_lockstep:
        # The number of workers that add up, as `set_worker_count` of a client sets it.
        simulated_network.world.workers.header.workers = job.workers
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
    return AllReduceTrainingResult(
        waits=design.is_lockstep,
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
    """Return the trace with only the `size` most updated parameters, numbered from 0."""
    limit = min(size, len(np.unique(trace.position)))
    return replace(restrict_to_hottest(trace, limit), space=KeySpace(limit))
