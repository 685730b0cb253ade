"""Resources of every section: cores, scale, order, progress, and a network with a traffic generator."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from softswitch.ports.sockets import PortSocket, ring_bytes_per_port
from switch_bench.baseline import C_LOOP, PORT_LOOP, c_loop, interfaces, port_loop
from switch_bench.network import host_interface, in_namespace, network
from switch_bench.processes import Cores, pinned
from switch_bench.scale import Scale
from switch_bench.switches import RunningSwitch, install, running_switch, switches
from switch_bench.traffic import Generator
from switch_bench.workload import INGRESS, Setup, Workload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    cores: Cores
    scale: Scale
    order: random.Random  # draws the order of the targets in each round
    announce: Callable[[str], None]
    """Prints what is being measured, on a terminal."""

    def shuffled(self, targets: Sequence[T], times: int = 1) -> Iterator[T]:
        """Yield all targets `times * rounds` times over, each time in a new random order."""
        for _ in range(times * self.scale.rounds):
            yield from self.order.sample(targets, len(targets))

    def switches(self) -> list[str]:
        return switches()

    @contextmanager
    def traffic(self, ports: int) -> Iterator[Generator]:
        """Run a network of that many ports, with a generator that sends into the first."""
        numbers = range(1, ports + 1)
        with network(numbers), ExitStack() as stack:
            with in_namespace():
                sinks = {
                    port: stack.enter_context(
                        closing(PortSocket(port, host_interface(port), ring_bytes_per_port(ports)))
                    )
                    for port in numbers
                }
            with pinned({self.cores.generator}):
                yield Generator(sinks[INGRESS], sinks)

    @contextmanager
    def switch(self, name: str, ports: int, setup: Setup) -> Iterator[RunningSwitch]:
        with running_switch(name, range(1, ports + 1), self.cores) as switch:
            install(switch.client, setup)
            yield switch

    @contextmanager
    def target(self, name: str, ports: int, setup: Setup, workload: Workload) -> Iterator[int]:
        """Run a switch, or a loop without P4 work, ready for a workload; yields its process ID."""
        loops = {C_LOOP: c_loop, PORT_LOOP: port_loop}
        if name in loops:
            numbers = range(1, ports + 1)
            with loops[name](interfaces(numbers), workload.stamp.egress, self.cores.softswitch):
                yield os.getpid()
        else:
            with self.switch(name, ports, setup) as switch:
                yield switch.pid
