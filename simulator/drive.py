"""Blocks in virtual time: the drivers of real runs decide on operations, and the event loop runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foundation.designs.interface import NEVER
from hosts.worker.loop import Driver
from simulator.costs import Hosts
from simulator.errors import SimulationError
from simulator.loop import ASKED, CROWDED, IS_FULL, LEFT, QUIET, awake, resume, run
from simulator.world import Simulated


@dataclass(slots=True)
class Clock:
    """A worker's own: it runs ahead of the world's while the worker computes."""

    now: int = 0

    def read(self) -> int:
        """Its time, ns."""
        return self.now

    def spin(self, until: int) -> None:
        """Compute until a time."""
        self.now = max(self.now, until)


def drive(
    simulated: Simulated,
    drivers: Sequence[Driver],
    clocks: Sequence[Clock],
    hosts: Hosts,
    take_log: Callable[[int], None],
) -> None:
    """Run until every worker's driver has finished; each operation takes its time to begin.

    `take_log` empties the log of an agent. Raises `SimulationError` where nothing happens any more.
    """
    left = len(drivers)
    for w in range(left):
        awake(simulated.pinned_ref, w)
    while left:
        reason = _run(simulated, NEVER)
        w = int(simulated.world.me.who)
        if reason == ASKED:
            left -= _ask(simulated, w, drivers[w], clocks[w], hosts)
        elif reason == IS_FULL:
            take_log(w)
        elif reason == CROWDED:
            simulated.make_room()
        elif reason == LEFT:
            raise SimulationError(f"after {simulated.now / 1e9:.6f} s a frame is for nobody who is simulated")
        elif reason == QUIET:
            raise SimulationError(
                f"after {simulated.now / 1e9:.6f} s nothing happens any more, and {left} workers are not done"
            )


def _run(simulated: Simulated, until: int) -> int:
    begun = time.perf_counter_ns()
    reason: int = run(simulated.pinned_ref, until)
    simulated.loop_ns += time.perf_counter_ns() - begun
    return reason


def _ask(simulated: Simulated, w: int, driver: Driver, clock: Clock, hosts: Hosts) -> bool:
    """Let the driver of worker `w` do what is due; whether it has finished by that."""
    client = simulated.clients[w]
    client.settle()
    clock.now = now = simulated.now
    driver.wake(now)
    at = clock.now + (0 if client.idle else _beginning(simulated, w, hosts))
    until = NEVER if driver.finished else driver.deadline() or now
    resume(simulated.pinned_ref, w, at, max(until, at))
    return driver.finished


def _beginning(simulated: Simulated, w: int, hosts: Hosts) -> int:
    """What it takes worker `w` to begin its operation, ns."""
    pushes, is_cold = simulated.clients[w].pushes, bool(simulated.world.agents[w].cold)
    took: int = hosts.begin_ns + pushes * hosts.push_ns + is_cold * hosts.cold_ns
    return took


def pass_time(simulated: Simulated, until: int) -> None:
    """Let all happen that is left to happen before a time, and be there."""
    while True:
        reason = _run(simulated, until)
        if reason == CROWDED:
            simulated.make_room()
        elif reason == ASKED:
            resume(simulated.pinned_ref, int(simulated.world.me.who), simulated.now, NEVER)
        else:
            break
    simulated.world.me.now = max(until, simulated.now)
