"""The switches of a simulated network of leaves and a spine: each server's hot set is at its home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from controller.controller_ops import rows_in_network
from controller.tables import InitialRow
from foundation.designs.interface import Design
from foundation.protocol.codec import Values
from foundation.protocol.header import LANES
from foundation.protocol.leaf_spine import SPINE, LeafSpine
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.keys import KeySpace
from hotline_simulator.simulated_switch import SimulatedSwitch
from softswitch.compiled import CompiledPipeline


def build_switches(
    design: Design, network: LeafSpine | None, buffered: bool = False, lanes: int = LANES
) -> Switches:
    """Return a single switch, or with `network` those of a network."""
    if network is None:
        return SimulatedSwitch(design, buffered, lanes=lanes)
    switches = [SimulatedSwitch(design, buffered, lanes=lanes) for _ in network.switches]
    return LeafSpineSwitches(design, network, switches)


class LeafSpineSwitches:
    """Like a `SimulatedSwitch`, for all switches of a network, which have the same program."""

    def __init__(self, design: Design, network: LeafSpine, switches: Sequence[SimulatedSwitch]) -> None:
        self._design, self.network, self._switches = design, network, switches
        self.state_ops = switches[SPINE].state_ops

    @property
    def pipelines(self) -> list[CompiledPipeline]:
        """The pipelines, the spine's first."""
        return [switch.pipeline for switch in self._switches]

    def install(self, rows: Sequence[InitialRow]) -> None:
        """Install the initial rows that a single switch would have."""
        for number, switch in enumerate(self._switches):
            switch.install(rows_in_network(self._design, rows, self.network, number))

    def load(self, job: int, keys: Sequence[int], ranges: RowRanges = ONE_VALUE) -> None:
        for home, home_keys in self.network.keys_by_home(keys).items():
            self._switches[home].load(job, home_keys, ranges)

    def stored_values(self, job: int, space: KeySpace) -> Values:
        # Each value is at one switch, and 0 at the others, or it is a sum that workers' leaves have parts of.
        stored: Values = np.zeros(space.n_values, np.uint32)
        for switch in self._switches:
            stored += switch.stored_values(job, space)
        return stored

    def read_register(self, name: str) -> list[int]:
        """Return all cells of a register of the program, one switch after the other."""
        return [cell for switch in self._switches for cell in switch.read_register(name)]

    def overflows(self) -> int:
        return sum(switch.overflows() for switch in self._switches)


Switches: TypeAlias = SimulatedSwitch | LeafSpineSwitches
"""The switches with the program: one, or those of a network."""
