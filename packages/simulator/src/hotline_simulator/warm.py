"""Compile and cache the simulator's machine code, by running an operation of one key (`make setup`)."""

from __future__ import annotations

import numpy as np

from foundation.designs.registry import DEFAULT, design
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER
from hotline_simulator.loop import resume, run, wake_agent
from hotline_simulator.simulated_switch import SimulatedSwitch
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

_BEGIN_NS, _END_NS = 1_000_000, 2_000_000  # of the operation


def warm(name: str = DEFAULT) -> None:
    """Compile for a design: some 15 s after a change of compiled code, and no time otherwise."""
    chosen_design = design(name)
    arm = chosen_design.arms[0]
    system = SimulatedSystem(design=chosen_design, arm=arm, space=KeySpace(1), workers=1, servers=1)
    network = SimulatedNetwork(system, SimulatedSwitch(chosen_design))
    wake_agent(network.pinned_ref, 0)
    run(network.pinned_ref, _BEGIN_NS)
    network.clients[0].pull(iteration=1, positions=np.zeros(1, np.int64))
    resume(network.pinned_ref, 0, network.now, NEVER)
    run(network.pinned_ref, _END_NS)


if __name__ == "__main__":
    warm()
