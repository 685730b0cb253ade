from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.designs import CONTROL
from foundation.designs.interface import Arm, Design, Hosts
from hosts.keys import KeySpace
from simulator.costs import Hosts as HostCosts
from simulator.costs import LinkOutage, Network, set_frame_faults
from simulator.dense.schedule import AllReduceSchedule
from simulator.dense.subject import Subject
from simulator.simulated_switch import SimulatedSwitch
from simulator.state import ABSENT, OUTAGE_BEGINS, WORLD_HEADER, World, record_of
from simulator.world import SimulatedNetwork, push_event

TESTBED_HOSTS = HostCosts(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
)  # fmt: skip
TESTBED_SERVERS = 2
_NO_EPOCH = 0  # the switches of lockstep designs have no epochs
_NS_PER_US = 1_000
_NOT_RESET = {
    "frames", "heap", "inbox", "burst", "deferred", "waiting", "port_queues", "header", "costs", "heads",
}  # fmt: skip
"""Arrays of a world that are written before they are read, or do not change; `reset` restores `header`."""
# Likewise, of the states of workers and servers.
_STATE_ARRAYS_NOT_RESET = {"sent", "early", "log"}


def switch_of(design: Design, arm: Arm, workers: int, servers: int) -> SimulatedSwitch:
    switch = SimulatedSwitch(design)
    switch.install(CONTROL.for_design(design).rows(Hosts(workers, servers), [arm], _NO_EPOCH))
    return switch


class AllReduceTestbed:
    def __init__(self, subject: Subject, workers: int) -> None:
        self._subject = subject
        design, arm = subject.design, subject.arm
        self._switch = switch_of(design, arm, workers, TESTBED_SERVERS)
        self._provisioned_image = self._switch.pipeline.memory_image()
        # Each schedule sets the faults of links; this outage only makes the world allocate an outage record.
        network = Network(outages=(LinkOutage(host="w1", from_ms=0, duration_ms=1),))
        space = KeySpace(subject.range.max_values)
        self.network = SimulatedNetwork(
            design,
            arm,
            self._switch,
            space,
            largest_batch=1,
            workers=workers,
            servers=TESTBED_SERVERS,
            network=network,
            hosts=TESTBED_HOSTS,
            seed=1,
        )
        self.world = self.network.world
        self.world.header.events = 0  # without the event that begins this outage
        self._initial_header = record_of(self.world).copy()
        self._initial_servers = [(array, array.copy()) for array in _arrays_of_state(self.world.servers)]
        self._initial_arrays = [(array, array.copy()) for array in _arrays_to_reset(self.world)]

    def reset(self, schedule: AllReduceSchedule) -> None:
        world = self.world
        for array, initial in self._initial_arrays:
            array[...] = initial
        for name in WORLD_HEADER.names or ():
            record_of(world)[name] = self._initial_header[name]
        for links in (world.up, world.down):
            links.delay = schedule.delay_us * _NS_PER_US
            links.max_extra_delay_ns = schedule.extra_delay_us * _NS_PER_US
            set_frame_faults(links, schedule.loss, schedule.duplication, schedule.reordering)
        world.header.random = np.uint64(schedule.seed)
        for client in self.network.clients:
            client.state.header.stall_timeout = self._subject.stall_timeout_ns
            self._subject.set_up(client, schedule.window, schedule.chunk_size)
        if schedule.cable_us is not None:
            outage = world.outages[0]
            outage.host, outage.duration_ns = schedule.target, schedule.duration_us * _NS_PER_US
            push_event(world, schedule.cable_us * _NS_PER_US, OUTAGE_BEGINS, 0, ABSENT)
        self.restart_switch()

    def restart_servers(self) -> None:
        for array, initial in self._initial_servers:
            array[...] = initial

    def restart_switch(self) -> None:
        self._switch.pipeline.load_image(self._provisioned_image)


@cache
def all_reduce_testbed(subject: Subject, workers: int) -> AllReduceTestbed:
    return AllReduceTestbed(subject, workers)


def _arrays_to_reset(world: World) -> Iterator[NDArray[np.generic]]:
    for name, field in world._asdict().items():
        if name in ("calls", "servers"):
            yield from _arrays_of_state(field)
        elif name not in _NOT_RESET:
            yield field


def _arrays_of_state(state: Any) -> Iterator[NDArray[np.generic]]:  # a `NamedTuple` of arrays
    for name, field in state._asdict().items():
        if hasattr(field, "_asdict"):
            yield from _arrays_of_state(field)
        elif name not in _STATE_ARRAYS_NOT_RESET and field.flags.writeable:
            yield field
