"""The network that schedules are played on: made once for an arm and a number of workers, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from foundation.designs.interface import Arm, Hosts
from foundation.designs.switchml import DESIGN
from hosts.keys import KeySpace
from simulator.costs import Hosts as Costs
from simulator.costs import Network, Spell
from simulator.state import ME, NOBODY, SPELL_BEGINS, World
from simulator.switchboard import Switchboard
from simulator.switchml.schedule import MOST_VALUES, Schedule
from simulator.world import Simulated, put_event

COSTS = Costs(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
)  # fmt: skip
_US = 1_000
_NOT_READ = {"frames", "heap", "inbox", "burst", "aside", "waiting", "port_queues", "me", "costs", "heads"}
"""Arrays of a world that nobody reads where nothing has been written, or that nobody writes."""
_NOT_READ_OF_CALLS = {"sent", "log"}


class Bed:
    """Workers, one server that has nothing to do, and a switch."""

    def __init__(self, arm: Arm, workers: int) -> None:
        self.workers = workers
        self.board = Switchboard(DESIGN)
        self.board.install(DESIGN.control.rows(Hosts(workers, 1), [arm], 0))
        self._provisioned = self.board.pipeline.memory_image()
        # The cables' settings are each schedule's; there is one spell to be had.
        network = Network(spells=(Spell(host="w1", from_ms=0, for_ms=1),))
        self.network = Simulated(
            DESIGN, arm, self.board, KeySpace(MOST_VALUES), 1, workers, 1, network, COSTS, 1
        )
        self.world = self.network.world
        self.world.me.events = 0
        self._me = self.world.me.copy()
        self._pristine = [(array, array.copy()) for array in _arrays(self.world)]

    def reset(self, schedule: Schedule) -> None:
        """Begin again, under a schedule's conditions."""
        world = self.world
        for array, was in self._pristine:
            array[...] = was
        for name in ME.names or ():
            world.me[name] = self._me[name]
        for links in (world.up, world.down):
            links.delay = schedule.delay_us * _US
            links.loss, links.duplication = schedule.loss, schedule.duplication
            links.reordering, links.late_ns = schedule.reordering, schedule.late_us * _US
            links.impaired = max(schedule.loss, schedule.duplication, schedule.reordering) > 0
        world.me.random = np.uint64(schedule.seed)
        world.calls.me.window = schedule.window
        if schedule.cable_us is not None:
            spell = world.spells[0]
            spell.host, spell.lasts = schedule.who, schedule.lasts_us * _US
            put_event(world, schedule.cable_us * _US, SPELL_BEGINS, 0, NOBODY)
        self.restart_switch()

    def restart_switch(self) -> None:
        """It has its rows, and nothing else."""
        self.board.pipeline.load_image(self._provisioned)


@cache
def bed_of(arm: Arm, workers: int) -> Bed:
    """One for each arm, number of workers and process."""
    return Bed(arm, workers)


def _arrays(world: World) -> Iterator[Any]:
    for name, found in world._asdict().items():
        if name == "calls":
            yield from (each for of, each in found._asdict().items() if of not in _NOT_READ_OF_CALLS)
        elif name == "servers":
            yield found.me
        elif name not in _NOT_READ:
            yield found
