"""Choose the CPU of each process of a run, and attribute the CPU time of the switch's BPF program.

Parameter servers and workers are kept apart, so that neither adds to the other's latency, and the runner
sleeps while a block runs. On two CPUs the switch is not pinned: its process runs where the kernel puts it,
its BPF program runs on the CPUs of the senders. (Pinning to either CPU made no significant difference;
with SCHED_FIFO the process interrupts a server for every frame.) A third CPU is the switch's in either
datapath. A fourth is for everything else (`topologies.cpu_counters`). All others are the agents', and each
agent has its own CPU if there are enough.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.record import ANY, ProgramUse
from experiment.run_config import PlacementConfig
from foundation.protocol.addressing import server_port, worker_port

PortCounters = Mapping[str, Any]  # JSON


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU numbers; None or () stands for any CPU."""

    switch: int | None = None
    """CPU of the switch's process, or of its BPF program (`softswitch.kernel.steering`)."""
    servers: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()
    rest: int | None = None
    """CPU of the runner, of gRPC and of the kernel."""

    def as_record(self) -> dict[str, int | str | list[int]]:
        return {
            "switch": _as_json(() if self.switch is None else (self.switch,)),
            "servers": _as_json(self.servers),
            "workers": _as_json(self.workers),
            "rest": _as_json(() if self.rest is None else (self.rest,)),
        }


def place(config: PlacementConfig, servers: int, workers: int, cpus: list[int] | None = None) -> Placement:
    """Spread switch, agents and the rest over the CPUs of this process, except where they are configured."""
    default = _assign_cpus(sorted(os.sched_getaffinity(0)) if cpus is None else cpus, servers, workers)
    return Placement(
        switch=default.switch if config.switch is None else config.cpu_of_switch,
        servers=default.servers if config.servers is None else (config.servers,),
        workers=default.workers if config.workers is None else (config.workers,),
        rest=default.rest,
    )


def cpu_of(number: int, cpus: tuple[int, ...]) -> int | None:
    return cpus[(number - 1) % len(cpus)] if cpus else None


def _assign_cpus(cpus: list[int], servers: int, workers: int) -> Placement:
    if len(cpus) == 1:
        return Placement()
    if len(cpus) == 2:
        return Placement(servers=(cpus[0],), workers=(cpus[1],))
    if len(cpus) == 3:
        return Placement(switch=cpus[2], servers=(cpus[0],), workers=(cpus[1],))
    # The first CPU tends to handle the interrupts.
    rest_cpu, switch_cpu, *agent_cpus = cpus
    server_cpu_count = min(servers, round(len(agent_cpus) * servers / (servers + workers)))
    # Servers get CPUs by their share of the agents, or more if one CPU per worker leaves more. Servers and
    # workers get at least one.
    agent_split = min(max(1, server_cpu_count, len(agent_cpus) - workers), len(agent_cpus) - 1)
    return Placement(
        switch_cpu,
        servers=tuple(agent_cpus[:agent_split][:servers]),
        workers=tuple(agent_cpus[agent_split:][:workers]),
        rest=rest_cpu,
    )


def _as_json(cpus: tuple[int, ...]) -> int | str | list[int]:
    if not cpus:
        return ANY
    return cpus[0] if len(cpus) == 1 else list(cpus)


def program_use_of(
    ports: Mapping[str, PortCounters], workers: int, servers: int, placement: Placement
) -> ProgramUse:
    """Attribute the CPU time of the BPF program since its start to the owners of the CPUs it ran on."""
    # A port's time (`program_ns`) is divided among CPUs as its frames are (`program_runs`). If the sender is
    # not pinned, all frames count as run on its CPU.
    seconds_by_field: dict[str, float] = defaultdict(float, {"workers": 0.0, "servers": 0.0})
    for port, kind, own_cpu in _list_senders(workers, servers, placement):
        for cpu, cpu_seconds in _program_seconds(ports[str(port)]).items():
            field = kind if own_cpu is None or cpu == own_cpu else _field_of_cpu(cpu, placement)
            seconds_by_field[field] += cpu_seconds
    return ProgramUse(**seconds_by_field)


def _list_senders(workers: int, servers: int, placement: Placement) -> Iterator[tuple[int, str, int | None]]:
    for number in range(1, workers + 1):
        yield worker_port(number), "workers", cpu_of(number, placement.workers)
    for number in range(1, servers + 1):
        yield server_port(workers, number), "servers", cpu_of(number, placement.servers)


def _program_seconds(port: PortCounters) -> dict[int, float]:
    runs: list[int] = port["program_runs"]
    return {cpu: port["program_ns"] / 1e9 * frames / sum(runs) for cpu, frames in enumerate(runs) if frames}


def _field_of_cpu(cpu: int, placement: Placement) -> str:
    # A field of `ProgramUse`, for a CPU that is not the sender's.
    if cpu in placement.servers:
        return "on_servers"
    return "on_workers" if cpu in placement.workers else "apart"
