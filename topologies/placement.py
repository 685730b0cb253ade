"""Which CPU each process runs on.

The parameter servers share one and the workers another, so that neither steals from the other's latency, and
the runner sleeps while a block runs. On two CPUs the switch is left to the kernel: pinned to either, it made
no difference that could be told from noise; as SCHED_FIFO it interrupts a server for every single frame.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from topologies.config import PlacementConfig


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU numbers; None is any."""

    switch: int | None
    servers: int | None
    workers: int | None

    def as_record(self) -> dict[str, int | str]:
        """For `run.json`."""
        return {name: "any" if cpu is None else cpu for name, cpu in asdict(self).items()}


def place(wanted: PlacementConfig, cpus: list[int] | None = None) -> Placement:
    """Spread switch, servers and workers over the CPUs of this process, unless they are told."""
    usable = sorted(os.sched_getaffinity(0)) if cpus is None else cpus
    if len(usable) == 1:
        found = Placement(None, None, None)
    elif len(usable) == 2:
        found = Placement(switch=None, servers=usable[0], workers=usable[1])
    else:
        found = Placement(switch=usable[2], servers=usable[0], workers=usable[1])
    return Placement(
        switch=found.switch if wanted.switch is None else wanted.switch,
        servers=found.servers if wanted.servers is None else wanted.servers,
        workers=found.workers if wanted.workers is None else wanted.workers,
    )
