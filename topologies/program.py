"""Where the kernel's program ran, by what the switch has counted at its ports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.record import ProgramUse
from foundation.protocol.addressing import server_port, worker_port
from topologies.placement import Placement, cpu_of


def use_of(
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
