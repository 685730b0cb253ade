"""Which CPU each process runs on: on 2 CPUs, 4, 16.

Parameter servers and workers are kept apart, so that neither steals from the other's latency, and the
runner sleeps while a block runs. On two CPUs the switch is left where it is: a process where the kernel puts
it (pinned to either, it made no difference that could be told from noise; as SCHED_FIFO it interrupts a
server for every single frame), a program in the kernel on its senders'. With a third the switch has a CPU of
its own in either datapath, and with a fourth whatever else runs does, too (`topologies.isolation`). All
others are the agents', and with enough of them each agent has its own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.record import ANY, ProgramUse
from experiment.config import PlacementConfig
from foundation.protocol.addressing import server_port, worker_port


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU numbers; none is any."""

    switch: int | None = None
    """Of its process, and of its program in the kernel (`softswitch.kernel.steering`)."""
    servers: tuple[int, ...] = ()
    """Agents take turns with them."""
    workers: tuple[int, ...] = ()
    rest: int | None = None
    """Runner, gRPC and the kernel's threads while it is measured."""

    def as_record(self) -> dict[str, int | str | list[int]]:
        """For `run.json`; one CPU is a number, several are a list."""
        return {
            "switch": _told(() if self.switch is None else (self.switch,)),
            "servers": _told(self.servers),
            "workers": _told(self.workers),
            "rest": _told(() if self.rest is None else (self.rest,)),
        }


def place(wanted: PlacementConfig, servers: int, workers: int, cpus: list[int] | None = None) -> Placement:
    """Spread switch, agents and the rest over the CPUs of this process, unless they are told."""
    found = _spread(sorted(os.sched_getaffinity(0)) if cpus is None else cpus, servers, workers)
    return Placement(
        switch=found.switch if wanted.switch is None else wanted.cpu_of_switch,
        servers=found.servers if wanted.servers is None else (wanted.servers,),
        workers=found.workers if wanted.workers is None else (wanted.workers,),
        rest=found.rest,
    )


def cpu_of(number: int, cpus: tuple[int, ...]) -> int | None:
    """The CPU of the agent of that number, from 1 on."""
    return cpus[(number - 1) % len(cpus)] if cpus else None


def _spread(cpus: list[int], servers: int, workers: int) -> Placement:
    if len(cpus) == 1:
        return Placement()
    if len(cpus) == 2:
        return Placement(servers=(cpus[0],), workers=(cpus[1],))
    if len(cpus) == 3:
        return Placement(switch=cpus[2], servers=(cpus[0],), workers=(cpus[1],))
    # Interrupts tend to be on the first.
    rest, switch, *agents = cpus
    share = min(servers, round(len(agents) * servers / (servers + workers)))
    at = min(max(1, share, len(agents) - workers), len(agents) - 1)
    return Placement(
        switch, servers=tuple(agents[:at][:servers]), workers=tuple(agents[at:][:workers]), rest=rest
    )


def _told(cpus: tuple[int, ...]) -> int | str | list[int]:
    if not cpus:
        return ANY
    return cpus[0] if len(cpus) == 1 else list(cpus)


def program_use_of(
    ports: Mapping[str, Mapping[str, Any]], workers: int, servers: int, placement: Placement
) -> ProgramUse:
    """CPU time since the start of the program, by whose CPUs it ran on.

    A port's time (`program_ns`) is divided as its frames are among CPUs (`program_runs`). Where nobody knows
    the sender's CPU, that is where they ran.
    """
    took: dict[str, float] = defaultdict(float)
    for port, kind, home in _senders(workers, servers, placement):
        for cpu, s in _seconds(ports[str(port)]).items():
            took[kind if home is None or cpu == home else _whose(cpu, placement)] += s
    return ProgramUse(workers=took.pop("workers", 0.0), servers=took.pop("servers", 0.0), **took)


def _senders(workers: int, servers: int, placement: Placement) -> Iterator[tuple[int, str, int | None]]:
    """Port, kind and CPU of each agent."""
    for number in range(1, workers + 1):
        yield worker_port(number), "workers", cpu_of(number, placement.workers)
    for number in range(1, servers + 1):
        yield server_port(workers, number), "servers", cpu_of(number, placement.servers)


def _seconds(port: Mapping[str, Any]) -> dict[int, float]:
    runs: list[int] = port["program_runs"]
    return {cpu: port["program_ns"] / 1e9 * frames / sum(runs) for cpu, frames in enumerate(runs) if frames}


def _whose(cpu: int, placement: Placement) -> str:
    if cpu in placement.servers:
        return "on_servers"
    return "on_workers" if cpu in placement.workers else "apart"
