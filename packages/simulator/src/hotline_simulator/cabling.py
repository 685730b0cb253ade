"""The interfaces of a simulated network, and its links: cables of hosts and uplinks of racks.

Interfaces are numbered in this order: of n hosts; of what is at the other ends of their cables; of the
uplinks of r racks; of their ports at the P4 switch; of the controller, at the CPU port.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foundation.protocol import addressing
from hotline_simulator.costs import HostCosts, Network, cables_of, pass_times_of, uplinks_of
from hotline_simulator.state import P4_SWITCH
from nativekit.records import Ints, Records, records
from softswitch.network.state import ABSENT, LinkState, NetworkInterface
from softswitch.v1model import PORT_NUMBERS


class Cabling(NamedTuple):
    links: Records[LinkState]
    interfaces: Records[NetworkInterface]
    ports: Ints  # int64[1 + racks, PORT_NUMBERS]
    racks: int


def cabling_of(network: Network, hosts: HostCosts, arm: str, workers: int, servers: int) -> Cabling:
    cables, uplinks = cables_of(network, hosts, workers, servers), uplinks_of(network, workers)
    n, racks = len(cables), len(uplinks)
    links = records(2 * (n + racks) + 1, LinkState)
    links[:n] = links[n : 2 * n] = cables
    links[2 * n : 2 * n + racks] = links[2 * n + racks : -1] = uplinks
    interfaces = records(len(links), NetworkInterface)
    for name in ("switch", "host", "peer"):
        interfaces[name] = ABSENT
    _connect(interfaces, np.arange(n), np.arange(n, 2 * n))
    _connect(interfaces, np.arange(2 * n, 2 * n + racks), np.arange(2 * n + racks, len(links) - 1))
    interfaces.host[:n] = np.arange(n)
    rack_of_worker = np.arange(workers) // (network.rack or 1)
    interfaces.switch[n:] = P4_SWITCH
    if racks:
        interfaces.switch[n : n + workers] = 1 + rack_of_worker
        interfaces.switch[2 * n : 2 * n + racks] = 1 + np.arange(racks)
    at_switch = np.flatnonzero(interfaces.switch == P4_SWITCH)
    per_port = network.rack or 1
    ports_of_workers = [addressing.worker_port(1 + k * per_port, per_port) for k in range(racks or workers)]
    ports_of_servers = [addressing.server_port(workers, 1 + k, per_port) for k in range(servers)]
    in_order = ports_of_servers + ports_of_workers if racks else ports_of_workers + ports_of_servers
    interfaces.port[at_switch] = [*in_order, addressing.CPU_PORT]
    ports = np.full((1 + racks, PORT_NUMBERS), ABSENT, np.int64)
    ports[P4_SWITCH, interfaces.port[at_switch]] = at_switch
    times = pass_times_of(hosts, arm)
    interfaces.pass_ns[at_switch] = times.of_worker
    interfaces.pass_ns[n + workers : 2 * n] = times.of_server
    return Cabling(links, interfaces, ports, racks)


def _connect(interfaces: Records[NetworkInterface], numbers: Ints, peers: Ints) -> None:
    interfaces.peer[numbers], interfaces.peer[peers] = peers, numbers
