"""The interfaces of a simulated network, and its links: cables of hosts and uplinks of racks or leaves.

Interfaces are numbered in this order: of n hosts; of what is at the other ends of their cables; of the
uplinks of r racks or leaves; of their ports at the P4 switch, or at the spine; of the controller, at the CPU
port of that switch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foundation.protocol import addressing
from foundation.protocol.addressing import host_port
from foundation.protocol.leaf_spine import SPINE, LeafSpine
from hotline_simulator.costs import HostCosts, Network, cables_of, pass_times_of, uplinks_of
from hotline_simulator.state import P4_SWITCH
from nativekit.records import Ints, Records, records
from softswitch.network.state import ABSENT, LinkState, NetworkInterface
from softswitch.v1model import PORT_NUMBERS


class Cabling(NamedTuple):
    links: Records[LinkState]
    interfaces: Records[NetworkInterface]
    ports: Ints  # int64[1 + racks, PORT_NUMBERS]
    racks: int  # or leaves


def cabling_of(
    network: Network,
    hosts: HostCosts,
    arm: str,
    workers: int,
    servers: int,
    topology: LeafSpine | None = None,
) -> Cabling:
    cables = cables_of(network, hosts, workers, servers)
    racks = -(-workers // network.rack) if network.rack else 0
    hosts_per_uplink = network.rack or 1
    if topology is not None:
        racks, hosts_per_uplink = topology.leaves, topology.hosts_per_leaf
    uplinks = uplinks_of(network, racks, hosts_per_uplink)
    n = len(cables)
    links = records(2 * (n + racks) + 1, LinkState)
    links[:n] = links[n : 2 * n] = cables
    links[2 * n : 2 * n + racks] = links[2 * n + racks : -1] = uplinks
    interfaces = records(len(links), NetworkInterface)
    for name in ("switch", "host", "peer"):
        interfaces[name] = ABSENT
    _connect(interfaces, np.arange(n), np.arange(n, 2 * n))
    _connect(interfaces, np.arange(2 * n, 2 * n + racks), np.arange(2 * n + racks, len(links) - 1))
    interfaces.host[:n] = np.arange(n)
    if topology is not None:
        return _attach_to_leaves(links, interfaces, topology)
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


def _attach_to_leaves(
    links: Records[LinkState], interfaces: Records[NetworkInterface], topology: LeafSpine
) -> Cabling:
    n, leaves = len(topology.hosts), np.arange(1, 1 + topology.leaves)
    interfaces.switch[n : 2 * n] = [topology.leaf_of(host) for host in topology.hosts]
    interfaces.port[n : 2 * n] = [host_port(host) for host in topology.hosts]
    first_of_spine = 2 * n + topology.leaves
    interfaces.switch[2 * n : first_of_spine] = leaves
    interfaces.port[2 * n : first_of_spine] = topology.uplink
    interfaces.switch[first_of_spine:] = SPINE
    interfaces.port[first_of_spine:-1], interfaces.port[-1] = leaves, addressing.CPU_PORT
    ports = np.full((1 + topology.leaves, PORT_NUMBERS), ABSENT, np.int64)
    of_switches = np.arange(n, len(interfaces))
    ports[interfaces.switch[n:], interfaces.port[n:]] = of_switches
    return Cabling(links, interfaces, ports, topology.leaves)


def _connect(interfaces: Records[NetworkInterface], numbers: Ints, peers: Ints) -> None:
    interfaces.peer[numbers], interfaces.peer[peers] = peers, numbers
