"""Simulate a noisy job and its neighbour at one switch; each job has its own workers and servers.

`python -m simulator.neighbours.noisy` prints what docs/design.md quotes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from controller.designs import CONTROL
from controller.hotset.quotas import Slots, slots_of
from controller.hotset.selection import Contender, Rates, Rule, choose_together
from experiment.config import EPOCH
from foundation.designs.hotset import DESIGN, OFFLOAD
from foundation.designs.interface import Hosts
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from simulator.costs import Hosts as Costs
from simulator.costs import Network
from simulator.drive import WorkerClock, drive
from simulator.simulated_switch import SimulatedSwitch
from simulator.world import SimulatedNetwork, VirtualClient

QUIET, NOISY = 61, 62
"""Job numbers."""
WORKERS, SERVERS = 4, 2
KEYS = 6_000
"""Parameters of each job."""
SLOTS = 64
"""Slots of each lane that the two jobs share: 2,048 keys."""
QUOTA = 1_024
KEYS_A_STEP = 100
PERIOD_NS = 1_000_000
TIMES = 10
"""Rate of the noisy job's steps, as a multiple."""
SHARED_MBIT = 4_000
CASES = ("alone", "all slots taken", "with a quota", "its keys at its servers")


@dataclass(frozen=True, slots=True)
class Load:
    """The pushes of a job's workers."""

    keys: NDArray[np.int64]
    """Positions by worker and step: [WORKERS, steps, KEYS_A_STEP]."""
    period_ns: int

    @property
    def rates(self) -> Rates:
        """Return the updates of each key in the time of a step of the quiet job."""
        keys, counts = np.unique(self.keys, return_counts=True)
        return Rates(keys.astype(np.uint64), counts * PERIOD_NS / (self.keys.shape[1] * self.period_ns))


class Pushes:
    """A driver that pushes at even intervals, and measures from when a push was due until it is answered."""

    def __init__(self, client: VirtualClient, keys: NDArray[np.int64], first_ns: int, period_ns: int) -> None:
        self.latencies_ns: list[int] = []
        self._client, self._keys, self._first_ns, self._period_ns = client, keys, first_ns, period_ns
        self._step, self.finished = 0, len(keys) == 0
        self._is_pushing = False

    def deadline(self) -> int | None:
        return self._due() if self._client.idle else self._client.deadline()

    def wake(self, now: int) -> None:
        self._client.wake(now)
        if not self._client.idle:
            return
        if self._is_pushing:
            self.latencies_ns.append(now - self._due())
            self._step += 1
            self._is_pushing = False
            self.finished = self._step == len(self._keys)
        if not self.finished and self._due() <= now:
            positions = self._keys[self._step]
            ones = np.ones(len(positions), np.uint32)
            self._client.push(self._step, positions, ones, np.zeros(len(positions), np.bool_))
            self._is_pushing = True

    def _due(self) -> int:
        return self._first_ns + self._step * self._period_ns


class Neighbours(NamedTuple):
    """The quiet job's share of updates in the switch, and the median and p99 of its pushes in µs."""

    hit_share: float
    median_us: float
    p99_us: float


def loads(steps: int, seed: int = 1) -> dict[int, Load]:
    """Return the load of each job: the quiet one has a few hot keys, the noisy one none that is not hot."""
    chance = np.random.default_rng(seed)
    skewed = 1.0 / np.arange(1, KEYS + 1)
    made = {}
    for job, weights, times in ((QUIET, skewed, 1), (NOISY, np.ones(KEYS), TIMES)):
        draws = [
            np.sort(chance.choice(KEYS, KEYS_A_STEP, replace=False, p=weights / weights.sum()))
            for _ in range(WORKERS * steps * times)
        ]
        made[job] = Load(np.array(draws).reshape(WORKERS, steps * times, KEYS_A_STEP), PERIOD_NS // times)
    return made


def hot_sets(case: str, rates: Mapping[int, Rates]) -> dict[int, list[int]]:
    """Return the hot keys of each job as `hotline follow` chooses them, in one of `CASES`."""
    limits = {QUIET: QUOTA, NOISY: KEYS}
    jobs = {job: Contender(each, np.empty(0, np.uint64), Rule(limits[job])) for job, each in rates.items()}
    if case == "with a quota":
        return _choose(jobs, {}, {QUIET: QUOTA, NOISY: 0})
    if case == "all slots taken":
        # The noisy job has loaded its keys before, and is not followed.
        loaded = _choose({NOISY: jobs[NOISY]}, {}, {})
        return loaded | _choose({QUIET: jobs[QUIET]}, {NOISY: slots_of(loaded[NOISY])}, {})
    return {NOISY: []} | _choose({QUIET: jobs[QUIET]}, {}, {})


def _choose(
    jobs: Mapping[int, Contender], held: Mapping[int, Slots], quotas: Mapping[int, int]
) -> dict[int, list[int]]:
    changes, _ = choose_together(jobs, held, quotas, np.full(LANES, SLOTS, np.int64))
    return {job: list(change.filling) for job, change in changes.items()}


def measure(case: str, network: Network, steps: int, seed: int = 1) -> Neighbours:
    """Simulate one of `CASES`; a network with racks has all workers in one."""
    of_jobs = loads(steps, seed)
    chosen = hot_sets(case, {job: load.rates for job, load in of_jobs.items()})
    arms = [replace(OFFLOAD, name=f"job {job}", job=job) for job in of_jobs]
    switch = SimulatedSwitch(DESIGN)
    hosts = Hosts(WORKERS, SERVERS, network.rack or 1, jobs=len(arms))
    switch.install(CONTROL.for_design(DESIGN).rows(hosts, arms, EPOCH))
    costs = Costs(begin_ns=0)
    simulated = SimulatedNetwork(
        DESIGN, arms[0], switch, KeySpace(KEYS), KEYS_A_STEP, WORKERS, SERVERS, network, costs, seed,
        neighbours=arms[1:],
    )  # fmt: skip
    drivers = []
    for at, (job, load) in enumerate(of_jobs.items()):
        keys = np.array(chosen[job], np.uint64)
        switch.load(job, chosen[job])
        for store in simulated.stores[at * SERVERS : (at + 1) * SERVERS]:
            switch.state_ops.release_to_switch(store, keys)
        for w in range(WORKERS):
            client = simulated.clients[at * WORKERS + w]
            client.hint(keys)
            pushed = load.keys[w] if job == QUIET or case != "alone" else load.keys[w][:0]
            # Workers do not begin at the same time.
            drivers.append(Pushes(client, pushed, load.period_ns * (w + 1) // WORKERS, load.period_ns))
    clocks = [WorkerClock() for _ in drivers]
    drive(simulated, drivers, clocks, costs, lambda a: _take_log(simulated, a))
    latencies = np.concatenate([driver.latencies_ns for driver in drivers[:WORKERS]]) / 1_000
    at_servers = sum(int(server.jobs.applied_lanes.sum()) for server in simulated.servers[:SERVERS])
    return Neighbours(1 - at_servers / of_jobs[QUIET].keys.size, *np.percentile(latencies, (50, 99)).tolist())


def _take_log(network: SimulatedNetwork, agent: int) -> None:
    workers = len(network.clients)
    if agent < workers:
        network.clients[agent].take_records()
    else:
        network.take_contacts(agent - workers)


NETWORKS = {
    "own cables": Network(),
    "one uplink": Network(rack=2 * WORKERS, uplink_mbit=SHARED_MBIT),
}


@click.command()
@click.option(
    "--steps", type=click.IntRange(min=10), default=1_000, show_default=True, help="Of the quiet job."
)
def main(steps: int) -> None:
    """Print hits and push times of the quiet job (docs/design.md)."""
    click.echo(
        "| the noisy job | " + " | ".join(f"{name}: hits | median, µs | p99, µs" for name in NETWORKS) + " |"
    )
    click.echo("|---" * (1 + 3 * len(NETWORKS)) + "|")
    for case in CASES:
        found = [measure(case, network, steps) for network in NETWORKS.values()]
        cells = [f"{each.hit_share:.1%} | {each.median_us:.1f} | {each.p99_us:.1f}" for each in found]
        click.echo(f"| {case} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
