"""Compile what simulates, once: with one worker, one server and an operation of one key. Set-up does so."""

from __future__ import annotations

import numpy as np

from foundation.designs.interface import NEVER
from foundation.designs.registry import DEFAULT, design
from hosts.keys import KeySpace
from simulator.costs import Hosts, Network
from simulator.loop import awake, resume, run
from simulator.simulated_switch import SimulatedSwitch
from simulator.world import Simulated


def warm(name: str = DEFAULT) -> None:
    """Takes a quarter of a minute after every change of the code that is compiled, and else no time."""
    chosen = design(name)
    arm = chosen.arms[0]
    network = Simulated(chosen, arm, SimulatedSwitch(chosen), KeySpace(1), 1, 1, 1, Network(), Hosts(), 1)
    awake(network.pinned_ref, 0)
    run(network.pinned_ref, 1_000_000)
    network.clients[0].pull(1, np.zeros(1, np.int64))
    resume(network.pinned_ref, 0, network.now, NEVER)
    run(network.pinned_ref, 2_000_000)


if __name__ == "__main__":
    warm()
