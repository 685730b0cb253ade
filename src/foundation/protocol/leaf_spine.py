"""A network of leaves with hosts and one spine: its switches, their ports, and which has which hot set.

The spine is switch 0, and leaves follow. Hosts are numbered from 1, workers first; a host has the port at its
leaf that it would have at a single switch. Workers and servers each take turns at the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foundation.protocol.addressing import CPU_PORT, host_port
from foundation.protocol.hashing import ps_ids_of

SPINE = 0
HotSetPlace = Literal["spine", "leaves"]
"""Where a server's hot set is: at the spine, or at the server's leaf."""


@dataclass(frozen=True, slots=True)
class LeafSpine:
    workers: int
    servers: int
    leaves: int = 2
    place: HotSetPlace = "spine"

    @property
    def switches(self) -> range:
        return range(1 + self.leaves)

    @property
    def hosts(self) -> range:
        return range(1, 1 + self.workers + self.servers)

    @property
    def hosts_per_leaf(self) -> int:
        """The largest number of hosts of a leaf."""
        return -(-self.workers // self.leaves) + -(-self.servers // self.leaves)

    @property
    def uplink(self) -> int:
        """A leaf's port to the spine. The spine's port to a leaf is the number of the leaf."""
        return host_port(len(self.hosts) + 1)

    def ports(self) -> Iterator[tuple[int, int]]:
        """Yield each switch with each of its ports."""
        yield from ((SPINE, leaf) for leaf in self.switches[1:])
        yield from ((self.leaf_of(host), host_port(host)) for host in self.hosts)
        yield from ((leaf, self.uplink) for leaf in self.switches[1:])

    def name_of(self, switch: int) -> str:
        """Return the name of a switch: `spine`, or `leaf 1` and so on."""
        return "spine" if switch == SPINE else f"leaf {switch}"

    def leaf_of(self, host: int) -> int:
        first = 1 if host <= self.workers else self.workers + 1
        return 1 + (host - first) % self.leaves

    def home_of(self, ps: int) -> int:
        """Return the switch with the hot set of a server, counted from 0."""
        return SPINE if self.place == "spine" else self.leaf_of(self.workers + ps + 1)

    @property
    def homes(self) -> list[int]:
        """The switches with hot sets, ascending."""
        return sorted({self.home_of(ps) for ps in range(self.servers)})

    def keys_by_home(self, keys: Sequence[int]) -> dict[int, list[int]]:
        """Return the keys of each home's servers, in their order; homes ascend."""
        parts: dict[int, list[int]] = {home: [] for home in self.homes}
        for key, ps in zip(keys, ps_ids_of(np.array(keys, np.uint64), self.servers).tolist(), strict=True):
            parts[self.home_of(ps)].append(key)
        return parts

    @property
    def home_indexes(self) -> list[int]:
        """The home of each server, by its place in `homes`."""
        homes = self.homes
        return [homes.index(self.home_of(ps)) for ps in range(self.servers)]

    def toward_host(self, switch: int, host: int) -> int:
        """Return a switch's port toward a host."""
        leaf = self.leaf_of(host)
        if switch == leaf:
            return host_port(host)
        return leaf if switch == SPINE else self.uplink

    def toward_switch(self, switch: int, other: int) -> int:
        """Return a switch's port toward another switch."""
        return other if switch == SPINE else self.uplink


def host_at(port: int) -> int:
    """Return the number of the host with this port at a single switch."""
    return port if port < CPU_PORT else port - 1
