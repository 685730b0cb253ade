"""Small networks in virtual time, driven by operations that a test draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from experiment.design_parts import rows_of_all_hosts
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol.leaf_spine import LeafSpine
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.keys import KeySpace
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.drive import WorkerClock, drive, pass_time
from hotline_simulator.leaf_spine_switches import build_switches
from hotline_simulator.ledger import SimulatedPushLedger, WorkerLedger
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork, VirtualClient

PARAMETERS = 300
SOUND, QUICK = Network(), HostCosts()


class Operations:
    """A driver of random pulls and pushes, in a closed loop."""

    def __init__(
        self, client: VirtualClient, ledger: WorkerLedger, random: Random, count: int, space: KeySpace
    ) -> None:
        self._client, self._space = client, space
        self._ledger = ledger
        self._random = random
        self._script = self._steps(count)
        self.finished = False

    def deadline(self) -> int | None:
        return 0 if self._client.idle else self._client.deadline()

    def wake(self, now: int) -> None:
        self._client.wake(now)
        if self._client.idle:
            self.finished = next(self._script, True)

    def _steps(self, count: int) -> Iterator[bool]:
        for step in range(1, count + 1):
            size = self._random.randint(1, PARAMETERS)
            positions = np.array(sorted(self._random.sample(range(PARAMETERS), size)))
            if self._random.random() < 0.6:
                n_values = self._space.count_values(positions)
                deltas = np.array([self._random.getrandbits(32) for _ in range(n_values)], np.uint32)
                self._client.push(step, positions, deltas, self._ledger.open(positions, deltas))
                yield False
                self._ledger.close()
            else:
                self._client.pull(step, positions)
                yield False


class RandomTestbed:
    """Workers and servers of one arm, with some keys in the switch."""

    def __init__(
        self, arm: Arm, workers: int = 3, servers: int = 2, network: Network = SOUND,
        hosts: HostCosts = QUICK, hot: Sequence[int] = (), seed: int = 1, ranges: RowRanges = ONE_VALUE,
        topology: LeafSpine | None = None,
    ) -> None:  # fmt: skip
        self.space = KeySpace(PARAMETERS, None, ranges)
        self.switch = build_switches(design(arm.design), topology, network.traffic_manager)
        config = SimulationConfig(workers=workers, servers=servers, network=network, design=arm.design)
        self.switch.install(rows_of_all_hosts(config, [arm]))
        system = SimulatedSystem(
            design=design(arm.design), arm=arm, space=self.space, largest_batch=PARAMETERS, workers=workers,
            servers=servers, network=network, hosts=hosts, seed=seed,
            topology=topology,
        )  # fmt: skip
        driver_costs = {"operation_value_ns", "finish_ns", "push_ns"}
        self._driver_hosts = HostCosts(
            begin_ns=1_000, end_ns=hosts.end_ns if "end_ns" in hosts.model_fields_set else 0,
            **{name: getattr(hosts, name) for name in driver_costs},
        )  # fmt: skip
        self.network = SimulatedNetwork(system, self.switch)
        self.ledger = SimulatedPushLedger(self.space)
        self.random = Random(seed)
        keys = np.array(hot, np.uint64)
        if arm.settings.aggregates and len(keys):
            self.switch.load(arm.job, list(hot))
            by_number = [keys] if topology is None else topology.keys_by_number(keys)
            for store in self.network.stores:
                self.switch.state_ops.release_to_switch(store, by_number)

    def operate(self, count: int) -> None:
        clients = self.network.clients
        drivers = [
            Operations(client, self.ledger.for_worker(), self.random, count, self.space) for client in clients
        ]
        drive(self.network, drivers, [WorkerClock() for _ in clients], self._driver_hosts)

    def settle(self) -> None:
        pass_time(self.network, self.network.now + 10_000_000_000)

    def stored_values(self) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        values = self.switch.stored_values(self.network.arm.job, self.space)
        for store in self.network.stores:
            stored = store.contents()
            values[self.space.positions(stored.keys)] += stored.sums
        return values

    def state(self) -> bytes:
        world = self.network.world
        remaining = [
            world.links, world.switches.passes, world.agents, world.cores, world.servers.cells,
            world.servers.jobs,
        ]  # fmt: skip
        names = ("now", "order", "events", "handled_events", "random")
        numbers = [int(getattr(world.header, name)) for name in names]
        logs = [np.array(client.records).tobytes() for client in self.network.clients]
        return b"".join([repr(numbers).encode(), *(np.asarray(each).tobytes() for each in remaining), *logs])
