"""Jobs with hot sets at one simulated switch, each with its own workers, servers and hot keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controller.hotset.selection import Rates
from experiment.run_config import EPOCH
from foundation.designs.hotset import OFFLOAD
from foundation.designs.interface import Arm, SwitchHosts
from foundation.designs.registry import design as find_design
from hosts.keys import KeySpace
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.drive import WorkerClock, drive
from hotline_simulator.simulated_switch import switch_of
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork, VirtualClient


@dataclass(frozen=True, slots=True)
class Load:
    keys: NDArray[np.int64]
    """Positions by worker and step: [workers, steps, keys of a step]."""
    period_ns: int = 0
    """Time between the starts of two pushes; with 0, a push begins as soon as the previous one ends."""


class PushDriver:
    """A driver that pushes at even intervals, and measures from when a push is due until its last answer."""

    def __init__(self, client: VirtualClient, keys: NDArray[np.int64], first_ns: int, period_ns: int) -> None:
        self.latencies_ns: list[int] = []
        self.ended_ns = 0
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
            self.ended_ns = now
            self._step += 1
            self._is_pushing = False
            self.finished = self._step == len(self._keys)
        if not self.finished and self._due() <= now:
            positions = self._keys[self._step]
            deltas = np.ones(len(positions), np.uint32)
            self._client.push(self._step, positions, deltas, np.zeros(len(positions), np.bool_))
            self._is_pushing = True

    def _due(self) -> int:
        return self._first_ns + self._step * self._period_ns


@dataclass(frozen=True, slots=True)
class PushedJob:
    hit_share: float
    """Share of the updates that the switch, not a server, has added."""
    latencies_ns: NDArray[np.int64]
    ended_ns: NDArray[np.int64]
    """When each worker's last push was answered, [workers]."""


def draw_keys(
    rng: np.random.Generator, weights: NDArray[np.float64], shape: tuple[int, int, int]
) -> NDArray[np.int64]:
    """Return positions [workers, steps, keys of a step], drawn by weight, without repeats in a step."""
    share, (workers, steps, size) = weights / weights.sum(), shape
    draws = [np.sort(rng.choice(len(weights), size, replace=False, p=share)) for _ in range(workers * steps)]
    return np.array(draws, np.int64).reshape(shape)


def push_all(
    loads: Mapping[int, Load], hot_sets: Mapping[int, Sequence[int]], keys: int, servers: int,
    network: Network, costs: HostCosts, seed: int = 1, arm: Arm = OFFLOAD,
) -> dict[int, PushedJob]:  # fmt: skip
    """Simulate the pushes of jobs with `keys` parameters each, whose `hot_sets` are in the switch.

    All jobs have equally many workers; in a network with racks, all of them are in the same rack.
    """
    workers, _, keys_a_step = next(iter(loads.values())).keys.shape
    design = find_design(arm.design)
    arms = [replace(arm, job=job) for job in loads]
    switch = switch_of(design, SwitchHosts(workers, servers, network.rack or 1, jobs=len(arms)), arms, EPOCH)
    system = SimulatedSystem(
        design=design, arm=arms[0], space=KeySpace(keys), largest_batch=keys_a_step, workers=workers,
        servers=servers, network=network, hosts=costs, seed=seed, neighbours=arms[1:],
    )  # fmt: skip
    simulated = SimulatedNetwork(system, switch)
    drivers = []
    for k, (job, load) in enumerate(loads.items()):
        hot_keys = np.array(hot_sets[job], np.uint64)
        switch.load(job, hot_sets[job])
        for store in simulated.stores[k * servers : (k + 1) * servers]:
            switch.state_ops.release_to_switch(store, [hot_keys])
        for w in range(workers):
            client = simulated.clients[k * workers + w]
            client.hint(hot_keys)
            # Spread the workers' first pushes over a period.
            drivers.append(
                PushDriver(client, load.keys[w], load.period_ns * (w + 1) // workers, load.period_ns)
            )
    drive(simulated, drivers, [WorkerClock() for _ in drivers], costs)
    return {
        job: _result_of_job(
            load, drivers[k * workers : (k + 1) * workers],
            sum(int(each.jobs.applied_lanes.sum()) for each in simulated.servers[k * servers :][:servers]),
        )
        for k, (job, load) in enumerate(loads.items())
    }  # fmt: skip


def rates_of(load: Load, steps: float = 1.0) -> Rates:
    """Return the updates of each key in a number of steps."""
    keys, counts = np.unique(load.keys, return_counts=True)
    return Rates(keys.astype(np.uint64), counts * steps / load.keys.shape[1])


def _result_of_job(load: Load, drivers: Sequence[PushDriver], at_servers: int) -> PushedJob:
    return PushedJob(
        hit_share=1 - at_servers / max(load.keys.size, 1),
        latencies_ns=np.concatenate([np.array(driver.latencies_ns, np.int64) for driver in drivers]),
        ended_ns=np.array([driver.ended_ns for driver in drivers], np.int64),
    )
