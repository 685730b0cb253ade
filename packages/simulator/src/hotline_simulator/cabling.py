"""The interfaces of a simulated network, and its links: cables of hosts and uplinks of racks or leaves.

Interfaces are numbered in this order: of n hosts; of what is at the other ends of their cables; of the
uplinks of racks, or of leaves to each spine; of their ports at the P4 switch, or at the spines; of the
controllers, at the CPU port of each switch with the program.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foundation.protocol import addressing
from foundation.protocol.addressing import host_port
from foundation.protocol.leaf_spine import LeafSpine
from hotline_simulator.costs import HostCosts, Network, cables_of, pass_times_of, uplink_mbit, uplinks_of
from hotline_simulator.state import P4_SWITCH
from nativekit.records import Ints, Records, records
from softswitch.network.state import ABSENT, LinkState, NetworkInterface
from softswitch.v1model import PORT_NUMBERS


class Cabling(NamedTuple):
    links: Records[LinkState]
    interfaces: Records[NetworkInterface]
    ports: Ints  # int64[switches, PORT_NUMBERS]
    uplinks: int


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
    n, n_uplinks, mbit = len(cables), racks, uplink_mbit(network, network.rack or 1)
    if topology is not None:
        n_uplinks, mbit = topology.leaves * topology.spines, topology.uplink_mbit(network.rate_mbit)
    first_of_controllers = 2 * (n + n_uplinks)
    links = records(first_of_controllers + (1 if topology is None else len(topology.switches)), LinkState)
    links[:n] = links[n : 2 * n] = cables
    links[2 * n : 2 * n + n_uplinks] = links[2 * n + n_uplinks : first_of_controllers] = uplinks_of(
        network, n_uplinks, mbit
    )
    interfaces = records(len(links), NetworkInterface)
    for name in ("switch", "host", "peer"):
        interfaces[name] = ABSENT
    _connect(interfaces, np.arange(n), np.arange(n, 2 * n))
    first_at_spine = 2 * n + n_uplinks
    _connect(interfaces, np.arange(2 * n, first_at_spine), np.arange(first_at_spine, first_of_controllers))
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
    return Cabling(links, interfaces, ports, n_uplinks)


def _attach_to_leaves(
    links: Records[LinkState], interfaces: Records[NetworkInterface], topology: LeafSpine
) -> Cabling:
    n, uplinks = len(topology.hosts), [*topology.links()]
    interfaces.switch[n : 2 * n] = [topology.leaf_of(host) for host in topology.hosts]
    interfaces.port[n : 2 * n] = [host_port(host) for host in topology.hosts]
    first_of_spine, first_of_controllers = 2 * n + len(uplinks), 2 * (n + len(uplinks))
    interfaces.switch[2 * n : first_of_spine] = [leaf for leaf, _ in uplinks]
    interfaces.port[2 * n : first_of_spine] = [topology.uplink(spine) for _, spine in uplinks]
    interfaces.switch[first_of_spine:first_of_controllers] = [spine for _, spine in uplinks]
    interfaces.port[first_of_spine:first_of_controllers] = [topology.downlink(leaf) for leaf, _ in uplinks]
    interfaces.switch[first_of_controllers:] = topology.switches
    interfaces.port[first_of_controllers:] = addressing.CPU_PORT
    ports = np.full((len(topology.switches), PORT_NUMBERS), ABSENT, np.int64)
    of_switches = np.arange(n, len(interfaces))
    ports[interfaces.switch[n:], interfaces.port[n:]] = of_switches
    return Cabling(links, interfaces, ports, len(uplinks))


def _connect(interfaces: Records[NetworkInterface], numbers: Ints, peers: Ints) -> None:
    interfaces.peer[numbers], interfaces.peer[peers] = peers, numbers
