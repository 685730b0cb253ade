"""Run blocks in virtual time: the drivers of real runs choose operations, the event loop executes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotline_agents.interface import NEVER
from hotline_agents.worker.job_socket import Driver
from hotline_simulator.config import SimulationError
from hotline_simulator.costs import HostCosts
from hotline_simulator.loop import (
    DRIVER_DUE,
    FRAMES_DEFERRED,
    LOG_FULL,
    NO_EVENTS,
    OUT_OF_ROOM,
    TIME_REACHED,
    resume,
    run,
    wake_agent,
)
from hotline_simulator.world import SimulatedNetwork


@dataclass(slots=True)
class WorkerClock:
    now: int = 0

    def read(self) -> int:
        return self.now

    def spin(self, until: int) -> None:
        self.now = max(self.now, until)


def drive(
    network: SimulatedNetwork,
    drivers: Sequence[Driver],
    clocks: Sequence[WorkerClock],
    hosts: HostCosts,
    take_log: Callable[[int], None] | None = None,
) -> None:
    """Run drivers until all have finished; `take_log` takes full logs, None means `network.drain_log`."""
    remaining_workers = len(drivers)

    def wake_driver(w: int) -> bool:
        nonlocal remaining_workers
        remaining_workers -= _wake_driver(network, w, drivers[w], clocks[w], hosts)
        return remaining_workers == 0

    for w in range(remaining_workers):
        wake_agent(network.pinned_ref, w)
    reason = run_network(network, wake_driver, take_log or network.drain_log)
    # Frames are deferred to Python, which acts for no host or controller here.
    if reason == FRAMES_DEFERRED:
        raise SimulationError(f"after {network.now / 1e9:.6f} s a frame has no simulated recipient")
    if reason == NO_EVENTS:
        raise SimulationError(
            f"after {network.now / 1e9:.6f} s no event is left, and {remaining_workers} workers are not done"
        )


def run_network(
    network: SimulatedNetwork,
    wake_driver: Callable[[int], bool | None],
    take_log: Callable[[int], None] | None,
    until: int = NEVER,
) -> int:
    """Handle all events before a time; return why the loop has ended.

    `wake_driver` is called with each worker that is due, and ends the loop by returning True. `take_log` is
    called with each agent whose log is full; if it is None, a full log ends the loop.
    """
    while True:
        begin_ns = time.perf_counter_ns()
        reason: int = run(network.pinned_ref, until)
        network.loop_ns += time.perf_counter_ns() - begin_ns
        agent = network.event_agent
        if reason == OUT_OF_ROOM:
            network.make_room()  # for frames and events
        elif reason == LOG_FULL and take_log is not None:
            take_log(agent)
        elif reason != DRIVER_DUE or wake_driver(agent):
            break
    if reason == TIME_REACHED and until == NEVER:
        raise SimulationError("expected the events to end, but they go on forever")
    return reason


def _wake_driver(
    network: SimulatedNetwork, w: int, driver: Driver, clock: WorkerClock, hosts: HostCosts
) -> bool:
    client = network.clients[w]
    client.copy_answered_flags()
    clock.now = now = network.now
    end_ns = 0
    if client.is_operating:
        clock.now += hosts.finish_ns + client.is_push * hosts.push_ns
        end_ns = hosts.end_ns
    driver.wake(now)
    is_operating = client.is_operating = not client.idle
    resume_ns = clock.now + end_ns + (_begin_cost_ns(network, w, hosts) if is_operating else 0)
    # A driver is woken when its operation ends, or at its deadline; without a deadline, again at once.
    until = NEVER if is_operating or driver.finished else driver.deadline() or now
    resume(network.pinned_ref, w, resume_ns, max(until, resume_ns))
    return driver.finished


def _begin_cost_ns(network: SimulatedNetwork, w: int, hosts: HostCosts) -> int:
    client, is_cold = network.clients[w], network.woke_idle_core(w)
    duration: int = hosts.begin_ns + is_cold * hosts.cold_ns
    values_ns: int = round(hosts.operation_value_ns * client.further_values)
    return duration + values_ns


def pass_time(network: SimulatedNetwork, until: int) -> None:
    # No worker begins an operation: a driver that is due is put off until `drive` wakes it.
    run_network(network, lambda w: resume(network.pinned_ref, w, network.now, NEVER), None, until)
    network.world.header.now = max(until, network.now)
