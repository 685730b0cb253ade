"""R1's hot set is trained by the same workers on the same mini-batches, in designs that wait for each other
and in designs that do not.

The model has the hot parameters only: of each sample the features that are hot. Where a switch or servers
keep parameters, a worker pulls those of its mini-batch and pushes their deltas, and no worker waits for
another. In the others each worker has all parameters, and a push is an all-reduce of one vector as long as
the model, in which all workers take part. All of them add up the same fixed-point deltas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from controller.designs import CONTROL
from experiment.config import EPOCH
from foundation.designs import hotset, none, psdense, ring, switchml
from foundation.designs.interface import Arm, Design, Hosts
from foundation.settings import Strict
from hosts.config import WorkerCost
from hosts.keys import KeySpace
from hosts.model import LogisticRegression
from hosts.model.hyperparameters import chance_loss, choose
from hosts.worker.trainer import Schedule, Trainer
from hosts.workload.generator import R1, Shape, generate
from hosts.workload.trace import Samples, Trace
from simulator.books import ArmBook
from simulator.costs import Hosts as Costs
from simulator.costs import Network
from simulator.drive import Clock, drive
from simulator.simulated_switch import SimulatedSwitch
from simulator.world import Simulated
from studies.allreduce.trained import Course, Trained

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        none.NONE, hotset.HOT, switchml.PUBLISHED, switchml.CHECKED, psdense.PSDENSE, ring.RING,
    )
}  # fmt: skip
DESIGNS: dict[str, Design] = {
    each.name: each
    for each in (none.DESIGN, hotset.DESIGN, switchml.DESIGN, psdense.DESIGN, ring.DESIGN)
}  # fmt: skip
WAITS = {switchml.NAME, psdense.NAME, ring.NAME}
"""Designs in which workers wait for each other."""
BINS = 50
"""Of a course."""


class Training(Strict):
    """A job."""

    arm: str
    gbit: float
    workers: int
    servers: int
    steps: int
    """Of each worker."""
    compute_us: float = 0.0
    """Of each step, at least."""
    straggler: float = 1.0
    """The first worker computes so many times as long."""
    seed: int = 1


def train(job: Training, network: Network, costs: Costs, shape: Shape = R1) -> Trained:
    """Train, from a model of zeros on; all workers begin at once, and a step when the last has ended."""
    arm = ARMS[job.arm]
    design = DESIGNS[arm.design]
    trace = hot_part(generate(shape, job.workers, job.steps, job.seed), shape.hot)
    assert trace.samples is not None
    simulated = _network(design, arm, trace, job, network, costs)
    chosen = choose(trace)
    clocks, book = [Clock() for _ in simulated.clients], ArmBook(trace.space.size)
    trainers = [
        Trainer(
            w + 1, client, trace, LogisticRegression(chosen.scale, chosen.learning_rate), book.of_worker(),
            Schedule(0, job.steps, 0, 0), clocks[w].read,
            WorkerCost(compute_ns=round(1e3 * job.compute_us * (job.straggler if w == 0 else 1.0))),
            clocks[w].spin,
        )
        for w, client in enumerate(simulated.clients)
    ]  # fmt: skip

    def take_log(agent: int) -> None:
        if agent < job.workers:
            simulated.clients[agent].take_records()
        else:
            simulated.take_contacts(agent - job.workers)

    drive(simulated, trainers, clocks, costs, take_log)
    steps = job.workers * job.steps
    steps_of = [[of for of in each.operations if of.op == "step"] for each in trainers]
    ends = np.array([[of.end for of in each] for each in steps_of])
    losses = np.array([each.losses for each in trainers])
    # As long as all are at work, with what has begun by then.
    first = ends[:, -1].min()
    counted = np.array([[of.start < first for of in each] for each in steps_of])
    cables = (simulated.world.up, simulated.world.down)
    took = [of.end - of.start for each in steps_of for of in each]
    return Trained(
        waits=design.name in WAITS,
        keys_per_step=trace.lanes / steps,
        parameters=trace.space.size,
        step_us=float(np.mean(took)) / 1e3,
        steps_per_s=1e9 * np.count_nonzero(counted) / float(first),
        bytes_per_step=sum(int(link.bytes[: job.workers].sum()) for link in cables) / steps,
        packets_per_step=sum(int(link.frames[: job.workers].sum()) for link in cables) / steps,
        server_packets_per_step=sum(int(link.frames[job.workers :].sum()) for link in cables) / steps,
        retransmissions=sum(simulated.retransmissions()),
        chance_loss=chance_loss(trace.samples),
        course=course_of(ends[counted], losses[counted]),
    )


def course_of(ends: NDArray[np.int64], losses: NDArray[np.float64]) -> Course:
    """Of steps [n] that ended then (ns) and had that loss, in the order in which they ended."""
    order = np.argsort(ends, kind="stable")
    bins = np.array_split(order, min(BINS, len(order)))
    return Course(
        step=np.cumsum([len(each) for each in bins]).tolist(),
        ms=[float(ends[each].max()) / 1e6 for each in bins],
        loss=[float(losses[each].mean()) for each in bins],
    )


def hot_part(trace: Trace, size: int) -> Trace:
    """The same mini-batches of the parameters that are updated most, at most so many, and of no others."""
    assert trace.samples is not None
    updates = np.bincount(trace.position, minlength=trace.space.size)
    hot = np.sort(np.argsort(-updates, kind="stable")[: min(size, np.count_nonzero(updates))])
    place = np.full(trace.space.size, -1)
    place[hot] = np.arange(len(hot))
    positions = place[trace.position]
    is_kept = positions >= 0
    # Before each parameter: how many of its mini-batch are kept.
    kept_before = np.append(0, np.cumsum(is_kept))
    samples, starts = trace.samples, trace.key_start
    batch = np.repeat(np.arange(len(starts) - 1), np.diff(samples.entry_start))
    at = starts[batch] + samples.column
    is_entry = is_kept[at]
    sample = np.repeat(np.arange(len(samples.label)), samples.length)[is_entry]
    column = kept_before[at] - kept_before[starts[batch]]
    return replace(
        trace,
        space=KeySpace(len(hot)),
        key_start=kept_before[starts],
        position=positions[is_kept].astype(np.uint32),
        samples=Samples(
            batch_start=samples.batch_start,
            label=samples.label,
            length=np.bincount(sample, minlength=len(samples.label)).astype(np.uint32),
            entry_start=np.append(0, np.cumsum(is_entry))[samples.entry_start],
            column=column[is_entry].astype(np.uint32),
            x=None if samples.x is None else samples.x[is_entry],
        ),
    )


def _network(
    design: Design, arm: Arm, trace: Trace, job: Training, network: Network, costs: Costs
) -> Simulated:
    """With all parameters in the switch, where it can hold them."""
    switch = SimulatedSwitch(design)
    switch.install(CONTROL.of(design).rows(Hosts(job.workers, job.servers), [arm], EPOCH))
    simulated = Simulated(
        design, arm, switch, trace.space, trace.largest_batch, job.workers, job.servers, network, costs,
        job.seed,
    )  # fmt: skip
    if arm.settings.aggregates and design.name not in WAITS:
        keys: NDArray[np.uint64] = trace.space.all()
        switch.load(arm.job, keys.tolist())
        for store in simulated.stores:
            switch.contents.lend(store, keys)
        for client in simulated.clients:
            client.hint(keys)
    if design.name in WAITS:
        simulated.world.calls.me.workers = job.workers
    return simulated
