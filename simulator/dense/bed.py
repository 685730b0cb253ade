"""The network that schedules are played on: made once for a design and a number of workers, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from foundation.designs.interface import Design, Hosts
from hosts.keys import KeySpace
from simulator.costs import Hosts as Costs
from simulator.costs import Network, Spell
from simulator.dense.schedule import MOST_VALUES, Schedule
from simulator.state import ME, NOBODY, SPELL_BEGINS, World
from simulator.switchboard import Switchboard
from simulator.world import Simulated, put_event

COSTS = Costs(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
)  # fmt: skip
SERVERS = 2
PATIENCE_NS = 100_000_000_000
"""By when every frame has come through, however many are lost: each is sent again every second."""
_US = 1_000
_NOT_READ = {"frames", "heap", "inbox", "burst", "aside", "waiting", "port_queues", "me", "costs", "heads"}
"""Arrays of a world that nobody reads where nothing has been written, or that nobody writes."""
_NOT_READ_OF_AGENTS = {"sent", "early", "log"}


def network_of(
    design: Design, workers: int, servers: int, values: int, network: Network, costs: Costs, seed: int = 1
) -> Simulated:
    """Workers and servers of a design at a switch with its program, for vectors of so many values."""
    board, [arm, *_] = Switchboard(design), design.arms
    board.install(design.control.rows(Hosts(workers, servers), [arm], 0))
    return Simulated(design, arm, board, KeySpace(values), 1, workers, servers, network, costs, seed)


class Bed:
    """A network that can be put back to its beginning."""

    def __init__(self, design: Design, workers: int) -> None:
        # The cables' settings are each schedule's; there is one spell to be had.
        network = Network(spells=(Spell(host="w1", from_ms=0, for_ms=1),))
        self.network = network_of(design, workers, SERVERS, MOST_VALUES, network, COSTS)
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
        for client in self.network.clients:
            client.state.me.window = client.state.me.free = schedule.window
            client.state.me.patience = PATIENCE_NS
            client.chunk_size = schedule.chunk_size
        if schedule.cable_us is not None:
            spell = world.spells[0]
            spell.host, spell.lasts = schedule.who, schedule.lasts_us * _US
            put_event(world, schedule.cable_us * _US, SPELL_BEGINS, 0, NOBODY)


@cache
def bed_of(design: Design, workers: int) -> Bed:
    """One for each design, number of workers and process."""
    return Bed(design, workers)


def _arrays(world: World) -> Iterator[Any]:
    for name, found in world._asdict().items():
        if name in ("calls", "servers"):
            yield from _leaves(found)
        elif name not in _NOT_READ:
            yield found


def _leaves(state: Any) -> Iterator[Any]:
    """Arrays of agents, in tuples in tuples."""
    for name, found in state._asdict().items():
        if hasattr(found, "_asdict"):
            yield from _leaves(found)
        elif name not in _NOT_READ_OF_AGENTS and found.flags.writeable:
            yield found
