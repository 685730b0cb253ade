"""The network that schedules are played on: made once for an arm and a number of workers, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.designs import CONTROL
from foundation.designs.interface import Arm, Design, Hosts
from hosts.keys import KeySpace
from simulator.costs import Hosts as Costs
from simulator.costs import LinkOutage, Network
from simulator.dense.schedule import Schedule
from simulator.dense.subject import Subject
from simulator.simulated_switch import SimulatedSwitch
from simulator.state import ME, NOBODY, SPELL_BEGINS, World, record_of
from simulator.world import Simulated, put_event

COSTS = Costs(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
)  # fmt: skip
SERVERS = 2
_US = 1_000
_NOT_READ = {"frames", "heap", "inbox", "burst", "aside", "waiting", "port_queues", "me", "costs", "heads"}
"""Arrays of a world that nobody reads where nothing has been written, or that nobody writes."""
_NOT_READ_OF_AGENTS = {"sent", "early", "log"}


def switch_of(design: Design, arm: Arm, workers: int, servers: int) -> SimulatedSwitch:
    """A switch with an arm's rows."""
    switch = SimulatedSwitch(design)
    switch.install(CONTROL.of(design).rows(Hosts(workers, servers), [arm], 0))
    return switch


class Bed:
    """A network that can be put back to its beginning."""

    def __init__(self, subject: Subject, workers: int) -> None:
        self._subject = subject
        design, arm = subject.design, subject.arm
        self._switch = switch_of(design, arm, workers, SERVERS)
        self._provisioned = self._switch.pipeline.memory_image()
        # The cables' settings are each schedule's; there is one spell to be had.
        network = Network(outages=(LinkOutage(host="w1", from_ms=0, duration_ms=1),))
        space = KeySpace(subject.range.most_values)
        self.network = Simulated(
            design, arm, self._switch, space, 1, workers, SERVERS, network, COSTS, seed=1
        )
        self.world = self.network.world
        self.world.me.events = 0
        self._me = record_of(self.world).copy()
        self._pristine = [(array, array.copy()) for array in _arrays(self.world)]

    def reset(self, schedule: Schedule) -> None:
        """Begin again, under a schedule's conditions."""
        world = self.world
        for array, was in self._pristine:
            array[...] = was
        for name in ME.names or ():
            record_of(world)[name] = self._me[name]
        for links in (world.up, world.down):
            links.delay = schedule.delay_us * _US
            links.loss, links.duplication = schedule.loss, schedule.duplication
            links.reordering, links.late_ns = schedule.reordering, schedule.extra_delay_us * _US
            links.impaired = max(schedule.loss, schedule.duplication, schedule.reordering) > 0
        world.me.random = np.uint64(schedule.seed)
        for client in self.network.clients:
            client.state.header.patience = self._subject.patience_ns
            self._subject.set_up(client, schedule.window, schedule.chunk_size)
        if schedule.cable_us is not None:
            spell = world.spells[0]
            spell.host, spell.lasts = schedule.who, schedule.lasts_us * _US
            put_event(world, schedule.cable_us * _US, SPELL_BEGINS, 0, NOBODY)
        self.restart_switch()

    def restart_switch(self) -> None:
        """It has its rows, and nothing else."""
        self._switch.pipeline.load_image(self._provisioned)


@cache
def bed_of(subject: Subject, workers: int) -> Bed:
    """One for each subject, number of workers and process."""
    return Bed(subject, workers)


def _arrays(world: World) -> Iterator[NDArray[np.generic]]:
    for name, found in world._asdict().items():
        if name in ("calls", "servers"):
            yield from _leaves(found)
        elif name not in _NOT_READ:
            yield found


def _leaves(state: Any) -> Iterator[NDArray[np.generic]]:  # a `NamedTuple` of arrays
    """Arrays of agents, in tuples in tuples."""
    for name, found in state._asdict().items():
        if hasattr(found, "_asdict"):
            yield from _leaves(found)
        elif name not in _NOT_READ_OF_AGENTS and found.flags.writeable:
            yield found
