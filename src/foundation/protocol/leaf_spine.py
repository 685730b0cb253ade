"""A network of leaves with hosts, and spines: its switches, their ports, and which has which hot set.

Spines are the switches from 0 on, and leaves follow. Hosts are numbered from 1, workers first; a host has
the port at its leaf that it would have at a single switch. Each leaf has a link to each spine. Packets
between two leaves all take the same spine, both ways, or each may take any of them (`Routing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from foundation.protocol.addressing import CPU_PORT, host_port
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import PS_BITS, PS_MASK

SPINE = 0
"""The only spine, or the first one."""
MAX_SPINES = 8
HotSetPlace = Literal["spine", "leaves", "worker-leaves", "both"]
"""Place of a server's hot set: a spine (servers take turns at several), the leaf of the server, each leaf
with workers, or both the server's leaf and a spine, each with a part of the rows. In the last two cases a
server has several homes, and a number at each (`PS_BITS`)."""
LEVELS = 2
"""Homes of a server with hot rows at both levels: its leaf, and a spine."""
SPINE_SHARE = 0.5
ServerHomes: TypeAlias = Sequence[Sequence[int]]
"""The home of each server, from server 0 on, in a sequence for each level: of one level, or of `LEVELS`."""
Routing = Literal["fixed", "ecmp", "spray"]
"""Choice of the spine between two leaves: the same for all packets; by a hash of a packet's addresses and
UDP ports; or each spine in turn. In the last two cases a leaf's uplinks are a bundle: in the rows of its
tables the first one stands for all (p4src/common/bundle.p4)."""


@dataclass(frozen=True, slots=True)
class LeafSpine:
    workers: int
    servers: int
    leaves: int = 2
    place: HotSetPlace = "spine"
    spines: int = 1
    hosts_per_leaf: int = 0
    """Hosts of each leaf but the last, which they fill in order; 0: workers and servers each take turns."""
    routing: Routing = "fixed"
    spine_share: float = SPINE_SHARE
    """Share of the hot rows, the hottest ones, that are at a spine if rows are at both levels."""
    oversubscription: float = 1.0
    """Bandwidth of the cables of the leaf with most hosts, divided by that of all uplinks of a leaf."""

    @property
    def switches(self) -> range:
        return range(self.spines + self.leaves)

    @property
    def leaf_switches(self) -> range:
        return self.switches[self.spines :]

    @property
    def hosts(self) -> range:
        return range(1, 1 + self.workers + self.servers)

    @property
    def max_hosts_of_leaf(self) -> int:
        """The largest number of hosts of a leaf."""
        if self.hosts_per_leaf:
            return min(self.hosts_per_leaf, len(self.hosts))
        return -(-self.workers // self.leaves) + -(-self.servers // self.leaves)

    def uplink_mbit(self, cable_mbit: float) -> float:
        """Return the bandwidth of each uplink, Mbit/s, by that of a host's cable; 0 means no limit."""
        return self.max_hosts_of_leaf * cable_mbit / self.oversubscription / self.spines

    @property
    def has_bundles(self) -> bool:
        """Whether the uplinks of each leaf are a bundle."""
        return self.routing != "fixed"

    def uplink(self, spine: int) -> int:
        """Return the port of each leaf to a spine."""
        return host_port(len(self.hosts) + 1 + spine)

    def downlink(self, leaf: int) -> int:
        """Return the port of each spine to a leaf."""
        return 1 + leaf - self.spines

    def links(self) -> Iterator[tuple[int, int]]:
        """Yield the leaf and the spine of each link between switches."""
        yield from ((leaf, spine) for leaf in self.leaf_switches for spine in range(self.spines))

    def port_peers(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return (switch, port) -> (switch, port) at the other end, of all links between switches."""
        up = {(leaf, self.uplink(spine)): (spine, self.downlink(leaf)) for leaf, spine in self.links()}
        return up | {end: start for start, end in up.items()}

    def ports(self) -> Iterator[tuple[int, int]]:
        """Yield each switch with each of its ports."""
        yield from ((spine, self.downlink(leaf)) for leaf, spine in self.links())
        yield from ((self.leaf_of(host), host_port(host)) for host in self.hosts)
        yield from ((leaf, self.uplink(spine)) for leaf, spine in self.links())

    def is_spine(self, switch: int) -> bool:
        return switch < self.spines

    def name_of(self, switch: int) -> str:
        """Return the name of a switch: `spine`, `leaf 1` and so on, or if there are several, `spine 1`."""
        if not self.is_spine(switch):
            return f"leaf {self.downlink(switch)}"
        return "spine" if self.spines == 1 else f"spine {1 + switch}"

    def leaf_of(self, host: int) -> int:
        if self.hosts_per_leaf:
            return self.spines + (host - 1) // self.hosts_per_leaf
        first = 1 if host <= self.workers else self.workers + 1
        return self.spines + (host - first) % self.leaves

    @property
    def is_home_by_worker(self) -> bool:
        """Whether the leaf of a worker is the home of all servers for this worker's RPCs."""
        return self.place == "worker-leaves"

    @property
    def has_levels(self) -> bool:
        """Whether a server has a home at each level, its leaf and a spine, and each row is at one of them."""
        return self.place == "both"

    @property
    def homes_of_server(self) -> int:
        """The number of homes of each server."""
        if self.has_levels:
            return LEVELS
        return len(self.homes) if self.is_home_by_worker else 1

    def home_of(self, ps: int) -> int:
        """Return the switch with the hot set of a server, counted from 0, or of its number at one home."""
        if self.is_home_by_worker:
            return self.homes[ps >> PS_BITS]
        if self.place == "leaves" or (self.has_levels and ps <= PS_MASK):
            return self.leaf_of(self.workers + (ps & PS_MASK) + 1)
        return _spines_of_servers(self)[ps & PS_MASK]

    def numbers_of(self, ps: int) -> range:
        """Return a server's numbers, one for each of its homes; also those by which it calls them."""
        return range(ps, ps + (self.homes_of_server << PS_BITS), 1 << PS_BITS)

    @property
    def homes(self) -> list[int]:
        """The switches with hot sets, ascending."""
        if self.is_home_by_worker:
            return sorted({self.leaf_of(worker) for worker in range(1, 1 + self.workers)})
        return sorted({self.home_of(number) for ps in range(self.servers) for number in self.numbers_of(ps)})

    def homes_of_worker(self, worker: int) -> list[int]:
        """Return the homes that a worker's RPCs pass, ascending, which share out its window."""
        return [self.leaf_of(worker)] if self.is_home_by_worker else self.homes

    def home_index_of(self, worker: int) -> int:
        """Return which home of each server a worker uses, by its place in `homes`; 0 if each has only one."""
        return self.homes.index(self.leaf_of(worker)) if self.is_home_by_worker else 0

    def path(self, ps: int) -> list[int]:
        """Return the switches that packets may pass from a home of a server to its leaf."""
        home, leaf = self.home_of(ps), self.leaf_of(self.workers + (ps & PS_MASK) + 1)
        if home == leaf:
            return [home]
        return [home, leaf] if self.is_spine(home) else [home, *self._spines_between(home, leaf), leaf]

    def keys_by_home(self, keys: Sequence[int]) -> dict[int, list[int]]:
        """Return the keys of each home, in their order, of which the hottest are first; homes ascend."""
        if self.is_home_by_worker:
            return {home: [*keys] for home in self.homes}
        parts: dict[int, list[int]] = {home: [] for home in self.homes}
        servers = ps_ids_of(np.array(keys, np.uint64), self.servers)
        n_at_spines = self.count_at_spines(len(keys))
        for rank, (key, ps) in enumerate(zip(keys, servers.tolist(), strict=True)):
            parts[self.home_of(ps | 1 << PS_BITS if rank < n_at_spines else ps)].append(key)
        return parts

    def keys_by_number(self, keys: Keys) -> list[Keys]:
        """Return the keys of all servers for each number of a server, given the hottest first."""
        if not self.has_levels:
            return [keys] * self.homes_of_server
        n_at_spines = self.count_at_spines(len(keys))
        return [keys[n_at_spines:], keys[:n_at_spines]]

    def count_at_spines(self, rows: int) -> int:
        """Return the number of rows, the hottest of these, that are at spines if there are two levels."""
        return round(self.spine_share * rows) if self.has_levels else 0

    @property
    def home_indexes(self) -> ServerHomes:
        """The homes of servers for a worker's RPCs, by their places in `homes_of_worker`."""
        if self.is_home_by_worker:
            return [[0] * self.servers]
        homes, levels = self.homes, range(self.homes_of_server)
        return [
            [homes.index(self.home_of(ps | level << PS_BITS)) for ps in range(self.servers)]
            for level in levels
        ]

    def toward_host(self, switch: int, host: int) -> int:
        """Return a switch's port toward a host."""
        leaf = self.leaf_of(host)
        return host_port(host) if switch == leaf else self.toward_switch(switch, leaf)

    def is_connected(self, switch: int, other: int) -> bool:
        """Return whether packets of a switch reach another one: those of a spine reach no other spine."""
        return not (self.is_spine(switch) and self.is_spine(other))

    def toward_switch(self, switch: int, other: int) -> int:
        """Return a switch's port toward another switch, which `is_connected`."""
        if self.is_spine(switch):
            return self.downlink(other)
        return self.uplink(other if self.is_spine(other) else self._spines_between(switch, other)[0])

    def _spines_between(self, leaf: int, other: int) -> range:
        if self.has_bundles:
            return range(self.spines)
        fixed = (leaf + other) % self.spines
        return range(fixed, fixed + 1)


@cache
def _spines_of_servers(network: LeafSpine) -> tuple[int, ...]:
    """Return the spine with the hot set of each server: as many at each, and those of a leaf at others.

    What a server gets and sends passes its spine, so servers of one leaf with one spine would share an
    uplink.
    """
    chosen: list[int] = []
    leaves = [network.leaf_of(host) for host in network.hosts[network.workers :]]
    for leaf in leaves:
        of_leaf = [spine for spine, other in zip(chosen, leaves, strict=False) if other == leaf]
        spines = range(network.spines)
        chosen.append(min(spines, key=lambda spine: (chosen.count(spine), of_leaf.count(spine))))
    return tuple(chosen)


def host_at(port: int) -> int:
    """Return the number of the host with this port at a single switch."""
    return port if port < CPU_PORT else port - 1
