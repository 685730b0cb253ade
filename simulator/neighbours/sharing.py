"""Jobs that share a switch's memory: goodput, fairness, and the share that the switch adds up.

`python -m simulator.neighbours.sharing` prints the table of docs/allreduce.md. Each job has its own workers
and server, and does one all-reduce; all begin at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import click
import numpy as np

from controller.designs import CONTROL
from controller.hotset.selection import Contender, Rates, Rule, choose_together
from foundation.designs.interface import NEVER, Hosts
from foundation.protocol.header import LANES
from hosts.atp.packet import CELLS
from hosts.keys import KeySpace
from hosts.worker.vectors import VectorClient
from simulator.atp import subject as atp
from simulator.config import SimulationError
from simulator.costs import Network
from simulator.dense.measure import IDEAL, largest_window
from simulator.dense.player import run_network
from simulator.dense.subject import Subject
from simulator.loop import resume, wake_agent
from simulator.simulated_switch import SimulatedSwitch
from simulator.switchml import subject as switchml
from simulator.world import SimulatedNetwork

SUBJECTS = {"switchml": switchml.PUBLISHED, "atp": atp.PUBLISHED}
JOBS = (1, 2, 4, 8)
CELLS_FREE = (CELLS, 2_000, 500, 128, 0)
"""Cells that are left for the jobs, of ATP's 20,000; SwitchML has as many slots."""
WORKERS, SERVERS = 4, 1
VALUES = 200_000
NETWORK = Network(rate_mbit=100_000, delay_us=1, switch_us=1, switch_mpps=1_000)
HOT_KEYS, HOT_SLOTS = 6_000, 64
"""Parameters of a job of `hotset`, and slots of each lane: 2,048 in all."""
_JOB_STEP = 100
"""Difference of the ids of two jobs."""


class Shared(NamedTuple):
    in_switch: float
    """Share of the workers' packets that the switch has added up."""
    goodputs: tuple[float, ...]
    """Values a second of a worker, of each job."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.goodputs))

    @property
    def fairness(self) -> float:
        return jain(self.goodputs)


def window_of(name: str, jobs: int, cells: int) -> int:
    """Return the window of each job; 0 if the design cannot run. SwitchML needs two slots a packet."""
    largest = largest_window(1.0, NETWORK, SUBJECTS[name].chunk_size)
    return largest if name == "atp" else min(largest, cells // 2 // jobs)


def share(name: str, jobs: int, cells: int, values: int = VALUES, workers: int = WORKERS) -> Shared:
    """Let jobs add up a vector each; raise `SimulationError` if a sum is wrong or missing."""
    subject, window = SUBJECTS[name], window_of(name, jobs, cells)
    arms = [replace(subject.arm, name=f"job {k}", job=subject.arm.job + _JOB_STEP * k) for k in range(jobs)]
    switch = SimulatedSwitch(subject.design)
    hosts = Hosts(workers, SERVERS, jobs=jobs)
    switch.install(CONTROL.for_design(subject.design).rows(hosts, arms, 0))
    if name == "atp":
        subject.occupy(switch, 1 - cells / CELLS)
    simulated = SimulatedNetwork(
        subject.design, arms[0], switch, KeySpace(values), 1, workers, SERVERS, NETWORK, IDEAL, 1,
        neighbours=arms[1:],
    )  # fmt: skip
    ended = _all_reduce(subject, simulated, workers, values, window)
    of_jobs = ended.reshape(jobs, workers).max(axis=1) / 1e9
    return Shared(_IN_SWITCH[name](switch), tuple(float(values / seconds) for seconds in of_jobs))


def share_hot_set(jobs: int, slots: int = HOT_SLOTS, keys: int = HOT_KEYS) -> list[float]:
    """Return the share of each job's updates that is in the switch, if jobs without quotas want all slots.

    All jobs have updates of the same skew, to other keys, and the switch has `slots` in each lane.
    """
    chance = np.random.default_rng(1)
    rates = np.sort(1e5 / np.arange(1, keys + 1))
    contenders = {
        job: Contender(
            Rates(np.arange(keys, dtype=np.uint64), chance.permutation(rates)),
            np.empty(0, np.uint64),
            Rule(keys),
        )
        for job in range(jobs)
    }
    changes, _ = choose_together(contenders, {}, {}, np.full(LANES, slots, np.int64))
    chosen = {job: np.array(change.filling, np.uint64) for job, change in changes.items()}
    return [float(each.rates.at(chosen[job]).sum() / rates.sum()) for job, each in contenders.items()]


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 if all are equal, 1 / n if one of n has all."""
    return float(np.sum(shares) ** 2 / (len(shares) * np.sum(np.square(shares))))


def _all_reduce(
    subject: Subject, simulated: SimulatedNetwork, workers: int, values: int, window: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Let all jobs do an all-reduce; return when each worker has its sum, in ns."""
    clients = cast(list[VectorClient], simulated.clients)
    chance = np.random.default_rng(1)
    vectors = [chance.standard_normal(values, np.float32) for _ in clients]
    ended = np.zeros(len(clients), np.int64)

    def ask(w: int) -> None:
        client = clients[w]
        client.take_records()
        if client.rpcs_of_operation:
            ended[w] = max(simulated.now, 1)
        else:
            subject.set_up(client, window, subject.chunk_size)
            client.all_reduce(vectors[w], workers)
        resume(simulated.pinned_ref, w, simulated.now, NEVER)

    for w in range(len(clients)):
        wake_agent(simulated.pinned_ref, w)
    run_network(simulated, ask)
    for first in range(0, len(clients), workers):
        of_job = slice(first, first + workers)
        if not (ended[of_job].all() and _is_one_sum(subject, clients[of_job], vectors[of_job])):
            raise SimulationError(f"job {first // workers}: expected one right sum at all workers")
    return ended


def _is_one_sum(
    subject: Subject,
    clients: Sequence[VectorClient],
    vectors: Sequence[np.ndarray[tuple[int], np.dtype[np.float32]]],
) -> bool:
    results = [client.result for client in clients]
    return all((each == results[0]).all() for each in results) and subject.is_sum(results[0], vectors)


def _in_switch_of_atp(switch: SimulatedSwitch) -> float:
    counts = [cell.packets for cell in switch.pipeline.read_counter("HotlineIngress.next_step.packets", 0, 8)]
    consumed, completed, _, _, collided, flushed, passed, _ = counts
    return (consumed + completed) / (consumed + completed + collided + flushed + passed)


_IN_SWITCH: dict[str, Callable[[SimulatedSwitch], float]] = {
    "switchml": lambda _switch: 1.0,
    "atp": _in_switch_of_atp,
}


@click.command()
@click.option(
    "--values", type=click.IntRange(min=1_000), default=VALUES, show_default=True, help="Of a vector."
)
def main(values: int) -> None:
    """Print the table of docs/allreduce.md: numbers of 1, 2, 4 and 8 jobs in each cell."""
    click.echo("| cells | `switchml` | Jain | `atp` | Jain | `atp`: in the switch |")
    click.echo("|---:|---:|---:|---:|---:|---:|")
    for cells in CELLS_FREE:
        line = [f"{cells:,}"]
        for name in SUBJECTS:
            found = [share(name, jobs, cells, values) for jobs in JOBS if window_of(name, jobs, cells)]
            line.append(" / ".join(f"{each.mean / 1e6:,.0f}" for each in found) or "-")
            line.append(f"{min(each.fairness for each in found):.3f}" if found else "-")
        line.append(" / ".join(f"{each.in_switch:.0%}" for each in found))
        click.echo(f"| {' | '.join(line)} |")
    hits = [share_hot_set(jobs) for jobs in JOBS]
    means = " / ".join(f"{np.mean(each):.1%}" for each in hits)
    click.echo(f"hotset: {means} of updates in the switch, Jain {min(map(jain, hits)):.3f}")


if __name__ == "__main__":
    main()
