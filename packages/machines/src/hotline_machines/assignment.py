"""Assign the switch and the hosts of a run to machines, by the resources of dask's workers and by pins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiment.run_config import PlacementConfig
from foundation.text import pluralize
from hotline_machines.errors import MachinesError
from topologies.cpu_placement import cpu_of, place

SWITCH_RESOURCE, HOST_RESOURCE = "switch", "host"
_SWITCH_PIN = "switch"


class OfferedMachine(NamedTuple):
    """A machine and what its worker of dask offers (`dask worker --resources`)."""

    name: str
    resources: Mapping[str, float]

    @property
    def offers_switch(self) -> bool:
        return self.resources.get(SWITCH_RESOURCE, 0) >= 1

    @property
    def room(self) -> int:
        """Return how many workers and servers the machine takes."""
        return int(self.resources.get(HOST_RESOURCE, 0))


class Assignment(NamedTuple):
    switch: str  # name of a machine
    hosts: dict[str, str]
    """Host, such as w1, -> name of its machine."""

    @property
    def machines(self) -> list[str]:
        return sorted({self.switch, *self.hosts.values()})

    def hosts_of(self, machine: str) -> list[str]:
        return [host for host, name in self.hosts.items() if name == machine]


def host_names(workers: int, servers: int) -> list[str]:
    """Return the names of a run's hosts; servers come first, so that they are spread over machines."""
    return [
        *(f"p{number}" for number in range(1, servers + 1)),
        *(f"w{number}" for number in range(1, workers + 1)),
    ]


def assign(
    machines: Sequence[OfferedMachine], workers: int, servers: int, pins: Mapping[str, str]
) -> Assignment:
    """Spread hosts evenly over the machines with room; raise `MachinesError` if they do not fit."""
    by_name = {machine.name: machine for machine in machines}
    for host, name in pins.items():
        if name not in by_name:
            raise MachinesError(
                f"wiring.pins: {host}: expected one of the machines {', '.join(sorted(by_name))}, got {name}"
            )
    switch = _choose_switch(machines, pins)
    names = host_names(workers, servers)
    total = sum(machine.room for machine in machines)
    if total < len(names):
        rooms = ", ".join(f"{machine.name} {machine.room}" for machine in machines)
        raise MachinesError(
            f"resource host: expected room for {len(names)} agents ({pluralize(workers, 'worker')} and "
            f"{pluralize(servers, 'server')}), got {total} ({rooms}); start more "
            "of `dask worker --resources host=N`"
        )
    used = Counter(pins[host] for host in names if host in pins)
    for name, number in used.items():
        if number > by_name[name].room:
            raise MachinesError(
                f"wiring.pins: expected at most {by_name[name].room} hosts on {name}, its resource host, got "
                f"{number}"
            )
    hosts = {}
    for host in names:
        if host in pins:
            hosts[host] = pins[host]
            continue
        # The machine with the largest share of its room free; the first name among equals.
        free = [each for each in machines if used[each.name] < each.room]
        chosen = min(free, key=lambda each: (used[each.name] / each.room, each.name))
        used[chosen.name] += 1
        hosts[host] = chosen.name
    return Assignment(switch, hosts)


def _choose_switch(machines: Sequence[OfferedMachine], pins: Mapping[str, str]) -> str:
    with_switch = sorted(machine.name for machine in machines if machine.offers_switch)
    if not with_switch:
        raise MachinesError(
            "resource switch: expected a worker of dask that has it, found none; start one by "
            "`dask worker --resources switch=1` on the switch's machine"
        )
    pinned = pins.get(_SWITCH_PIN)
    if pinned is not None and pinned not in with_switch:
        raise MachinesError(
            f"wiring.pins: switch: expected a machine with the resource switch ({', '.join(with_switch)}), "
            f"got {pinned}"
        )
    return pinned or with_switch[0]


def cpus_of_hosts(hosts: Sequence[str], cpus: Sequence[int]) -> dict[str, int | None]:
    """Return the CPU of each host of a machine; None for any. Servers and workers are kept apart."""
    servers = [host for host in hosts if host.startswith("p")]
    workers = [host for host in hosts if host.startswith("w")]
    if servers and workers:
        placement = place(PlacementConfig(), len(servers), len(workers), sorted(cpus))
        return {
            host: cpu_of(number, kind_cpus)
            for kind, kind_cpus in ((servers, placement.servers), (workers, placement.workers))
            for number, host in enumerate(kind, start=1)
        }
    # With a third CPU the first is left to supervisor and kernel, as on Mininet.
    own = tuple(sorted(cpus))[1 if len(cpus) > 2 else 0 :]
    if len(own) == 1:
        return dict.fromkeys(hosts)
    return {host: cpu_of(number, own) for number, host in enumerate(hosts, start=1)}
