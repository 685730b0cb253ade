"""Show what switch and servers hold after four workers have added 1 to 200 parameters, 25 times.

    python -m mine.look mine.count
    python -m mine.look mine.count loss=0.05 seed=2

Faults are those of `hotline_simulator.costs.Network`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from experiment.design_parts import initial_rows
from experiment.progress import compilation_shown
from foundation.designs.programs import P4Error
from foundation.designs.registry import design
from foundation.errors import HotlineError
from hosts.keys import KeySpace
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.drive import WorkerClock, drive, pass_time
from hotline_simulator.simulated_switch import SimulatedSwitch
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

WORKERS, SERVERS, KEYS, PUSHES = 4, 2, 200, 25
A_SECOND = 1_000_000_000


class Pushes:
    """What a worker does."""

    def __init__(self, client: Any) -> None:
        self._client, self._left, self.finished = client, PUSHES, False

    def deadline(self) -> int | None:
        due: int | None = 0 if self._client.idle else self._client.deadline()
        return due

    def wake(self, now: int) -> None:
        self._client.wake(now)
        if self._client.idle:
            self.finished = self._left == 0
            if not self.finished:
                self._left -= 1
                ones, answered = np.ones(KEYS, np.uint32), np.zeros(KEYS, np.bool_)
                self._client.push(PUSHES - self._left, np.arange(KEYS), ones, answered)


def look(name: str, seed: int = 1, **faults: float) -> None:
    """Run it, and print what there is."""
    found = design(name)
    arm, cables = found.arms[-1], Network.model_validate(faults)
    # A mistake in the design's Python is found here, before anything is compiled.
    rows = initial_rows(SimulationConfig(design=name, workers=WORKERS, servers=SERVERS), [arm])
    switch = SimulatedSwitch(found)
    switch.install(rows)
    system = SimulatedSystem(
        design=found, arm=arm, space=KeySpace(KEYS), largest_batch=KEYS, workers=WORKERS, servers=SERVERS,
        network=cables, seed=seed,
    )  # fmt: skip
    network = SimulatedNetwork(system, switch)
    clients = network.clients
    drive(
        network,
        [Pushes(each) for each in clients],
        [WorkerClock() for _ in clients],
        HostCosts(),
        lambda _agent: None,
    )
    pass_time(network, network.now + 10 * A_SECOND)

    print(f"{WORKERS * PUSHES * KEYS} updates pushed, {sum(network.retransmissions())} requests sent again")
    packets = [int(server.jobs["packets"].sum()) for server in network.servers]
    added = sum(int(store.contents().values.sum()) for store in network.stores)
    print(f"servers: {packets} packets, {added} updates added")
    for register in switch.pipeline.program.registers:
        cells = switch.pipeline.cells.read_register(register.name, 0, register.size)
        print(f"{register.name}: {', '.join(map(str, cells[:8]))}, ...; total {sum(cells)}")


if __name__ == "__main__":
    try:
        _, name, *rest = sys.argv
        given = {fault: float(value) for fault, value in (each.split("=") for each in rest)}
        with compilation_shown():
            look(name, int(given.pop("seed", 1)), **given)
    except P4Error as error:
        sys.exit(f"look: {error}")
    except (HotlineError, ValueError) as error:
        sys.exit(f"look: {error}; python -m mine.look DESIGN [seed=2] [loss=0.05] ...")
