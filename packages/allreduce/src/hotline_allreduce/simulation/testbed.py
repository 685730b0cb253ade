from __future__ import annotations

from functools import cache

import numpy as np

from foundation.designs.interface import SwitchHosts
from hosts.keys import KeySpace
from hotline_allreduce.simulation.schedule import AllReduceSchedule
from hotline_allreduce.simulation.subject import Subject
from simulator.costs import Hosts as HostCosts
from simulator.costs import LinkOutage, Network, set_frame_faults
from simulator.simulated_switch import switch_of
from simulator.snapshot import WorldSnapshot
from simulator.state import ABSENT, OUTAGE_BEGINS
from simulator.world import SimulatedNetwork, push_event

TESTBED_HOSTS = HostCosts(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
)  # fmt: skip
TESTBED_SERVERS = 2
_NS_PER_US = 1_000


class AllReduceTestbed:
    def __init__(self, subject: Subject, workers: int) -> None:
        self._subject = subject
        design, arm = subject.design, subject.arm
        self._switch = switch_of(design, SwitchHosts(workers, TESTBED_SERVERS), [arm])
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
        self._snapshot = WorldSnapshot(self.world)

    def reset(self, schedule: AllReduceSchedule) -> None:
        world = self.world
        self._snapshot.restore()
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
        for p in range(TESTBED_SERVERS):
            self._snapshot.restore_server(p)

    def restart_switch(self) -> None:
        self._switch.pipeline.load_image(self._provisioned_image)


all_reduce_testbed = cache(AllReduceTestbed)
