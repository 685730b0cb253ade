"""A network of leaves and a spine: its ports lead to the hosts, and each switch has the rows for its role."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.network_rows import bundle_rows, rows_of_switch
from controller.tables import (
    NO_PORT,
    BundleMemberRow,
    CallerPortRow,
    HashedBundleRow,
    HomeRow,
    JobRow,
    Route,
    ServerRow,
    SprayedBundleRow,
    UplinkRow,
    WorkerRow,
)
from experiment.design_parts import initial_rows
from experiment.run_config import Config
from foundation.protocol.addressing import CPU_PORT, host_port
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import PS_BITS, PS_CALLER_BASE
from foundation.protocol.leaf_spine import HotSetPlace, LeafSpine, Routing, host_at

PLACES: tuple[HotSetPlace, ...] = get_args(HotSetPlace)


@st.composite
def drawn_networks(
    draw: st.DrawFn, max_workers: int = 300, max_servers: int = 60, max_leaves: int = 6
) -> LeafSpine:
    """Draw a network that settings may describe."""
    workers, servers = draw(st.integers(1, max_workers)), draw(st.integers(1, max_servers))
    leaves, place = draw(st.integers(2, max_leaves)), draw(st.sampled_from(PLACES))
    spines, hosts = draw(st.integers(1, 3)), workers + servers
    filling = [number for number in range(1, hosts) if -(-hosts // number) == leaves]
    hosts_per_leaf = draw(st.sampled_from([0, *filling]))
    network = LeafSpine(workers, servers, leaves, place, spines, hosts_per_leaf)
    may_spread = spines > 1 and not any(map(network.is_spine, network.homes))
    return replace(network, routing=draw(st.sampled_from(get_args(Routing)))) if may_spread else network


networks, small_networks = drawn_networks(), drawn_networks(6, 5, 3)


def other_end(network: LeafSpine, switch: int, port: int) -> int | None:
    """Return the switch at the other end of a port; None for a host's port."""
    for leaf, spine in network.links():
        if (switch, port) == (spine, network.downlink(leaf)):
            return leaf
        if (switch, port) == (leaf, network.uplink(spine)):
            return spine
    return None


def members(network: LeafSpine, switch: int, port: int) -> list[int]:
    """Return the ports by which a switch may send a packet that is to leave by a port, from its rows."""
    rows = [*bundle_rows(network, switch)]
    if not any(isinstance(row, HashedBundleRow | SprayedBundleRow) and row.port == port for row in rows):
        return [port]
    return [row.port for row in rows if isinstance(row, BundleMemberRow)]


def first_of_bundle(network: LeafSpine, switch: int, port: int) -> int:
    """Return the port by which a switch knows a packet that comes by a port."""
    rows = bundle_rows(network, switch)
    return next((row.first for row in rows if isinstance(row, UplinkRow) and row.port == port), port)


def walks(network: LeafSpine, start: int, host: int) -> list[list[int]]:
    """Return the switches that a frame passes which each switch sends toward a host, for each path."""
    if start == network.leaf_of(host):
        assert network.toward_host(start, host) == host_port(host)
        return [[start]]
    ends = [other_end(network, start, port)
            for port in members(network, start, network.toward_host(start, host))]  # fmt: skip
    found = [[start, *rest] for end in ends if end is not None for rest in walks(network, end, host)]
    assert found and all(len(passed) <= 3 for passed in found)
    return found


@given(networks, st.data())
def test_ports_toward_a_host_lead_to_its_leaf(network: LeafSpine, data: st.DataObject) -> None:
    host = data.draw(st.sampled_from(network.hosts))
    for switch in network.switches:
        ends = [path[-1] for path in walks(network, switch, host)]
        assert set(ends) == {network.leaf_of(host)}
        crosses = not network.is_spine(switch) and switch != network.leaf_of(host)
        assert len(ends) == (network.spines if crosses and network.routing != "fixed" else 1)
    assert host_at(host_port(host)) == host


@given(networks)
def test_each_port_of_a_switch_has_one_end(network: LeafSpine) -> None:
    ports = list(network.ports())
    assert len(set(ports)) == len(ports) and CPU_PORT not in (port for _, port in ports)
    hosts = [port for switch, port in ports if other_end(network, switch, port) is None]
    assert sorted(hosts) == [host_port(host) for host in network.hosts]
    at_leaf = Counter(map(network.leaf_of, network.hosts))
    assert max(at_leaf.values()) == network.max_hosts_of_leaf
    if network.hosts_per_leaf:
        # Hosts fill the leaves in order.
        assert [*map(network.leaf_of, network.hosts)] == sorted(at_leaf.elements())
        assert set(at_leaf) == set(network.leaf_switches)
        assert {at_leaf[leaf] for leaf in network.leaf_switches[:-1]} == {network.hosts_per_leaf}
        return
    # Workers and servers each take turns at the leaves.
    for kind in (network.hosts[: network.workers], network.hosts[network.workers :]):
        sizes = [sum(network.leaf_of(host) == leaf for host in kind) for leaf in network.leaf_switches]
        assert max(sizes) - min(sizes) <= 1


def numbers_of(network: LeafSpine, ps: int) -> list[int]:
    """Return the numbers of a server, one for each home of it."""
    homes = {"worker-leaves": len(network.homes), "both": 2}.get(network.place, 1)
    return [ps | index << PS_BITS for index in range(homes)]


@given(small_networks)
def test_packets_pass_the_home_of_their_server(network: LeafSpine) -> None:
    """By the rows alone: from a caller to the home, from there to the server, and back from both."""
    workers, servers = network.workers, network.servers
    rows = initial_rows(Config(workers=workers, servers=servers))
    tables = [rows_of_switch(rows, network, switch) for switch in network.switches]
    callers = {row.worker: host_at(row.port) for row in rows if isinstance(row, WorkerRow) and row.job == 1}
    for ps in range(servers):
        server = workers + ps + 1
        for number in numbers_of(network, ps):
            home = network.home_of(number)
            of_switch = {
                switch: row
                for switch, own in enumerate(tables)
                for row in own
                if isinstance(row, ServerRow | HomeRow) and row.ps == number and row.job == 1
            }
            row = of_switch[home]
            assert isinstance(row, ServerRow) and row.port == network.toward_host(home, server)
            behind = {switch for path in walks(network, home, server) for switch in path[1:]}
            for switch, row in of_switch.items():
                if switch == home:
                    continue
                assert isinstance(row, HomeRow)
                if network.is_spine(switch) and network.is_spine(home):
                    # No link leads from one spine to another.
                    assert row == HomeRow(1, number, NO_PORT, NO_PORT)
                    continue
                # One more step toward the home, or toward the server behind it.
                following = other_end(network, switch, row.home_port)
                assert following is not None
                assert following == home or (not network.is_spine(switch) and network.is_spine(following))
                toward_server = network.toward_host(switch, server)
                assert row.server_port == (toward_server if switch in behind else NO_PORT)
            for caller, host in callers.items():
                if network.place == "worker-leaves" and caller < PS_CALLER_BASE:
                    used = network.leaf_of(host) == home
                else:
                    used = caller < PS_CALLER_BASE or caller == PS_CALLER_BASE + ps
                if not used:
                    continue
                number_of_caller = caller if caller < PS_CALLER_BASE else caller - ps + number
                way = {switch for path in walks(network, home, host) for switch in path}
                assert set(way) <= set(of_switch)
                for switch in way:
                    ports = {
                        each.worker: each.port
                        for each in tables[switch]
                        if isinstance(each, CallerPortRow) and each.job == 1
                    }
                    assert ports[number_of_caller] == network.toward_host(switch, host)
            if network.place == "worker-leaves":
                assert set(of_switch) == {home, *behind}


@given(networks, st.data())
def test_packets_come_to_a_switch_by_the_port_toward_their_source(
    network: LeafSpine, data: st.DataObject
) -> None:
    """The program checks the port. Between two leaves all take one spine both ways, or all may take each."""
    hosts = data.draw(st.lists(st.sampled_from(network.hosts), min_size=2, max_size=2))
    leaves = [network.leaf_of(host) for host in hosts]
    there, back = walks(network, leaves[0], hosts[1]), walks(network, leaves[1], hosts[0])
    assert there == [path[::-1] for path in back]
    assert {*map(len, there)} == {1 if leaves[0] == leaves[1] else 3}
    for path in there:
        for before, passed in pairwise(path):
            [port] = [port for at, port in network.ports()
                      if at == passed and other_end(network, at, port) == before]  # fmt: skip
            assert first_of_bundle(network, passed, port) == network.toward_host(passed, hosts[0])


@given(small_networks)
def test_a_network_with_bundles_has_the_tables_of_a_network_with_one_spine(network: LeafSpine) -> None:
    """Bundles have rows of their own, of which spines have none."""
    rows = initial_rows(Config(workers=network.workers, servers=network.servers))
    if not network.has_bundles:
        assert not any([*bundle_rows(network, switch)] for switch in network.switches)
        return
    simple = replace(network, spines=1, routing="fixed")
    for switch in network.switches:
        own = rows_of_switch(rows, network, switch)
        of_bundle = [*bundle_rows(network, switch)]
        role = 0 if network.is_spine(switch) else 1 + switch - network.spines
        assert own == [*rows_of_switch(rows, simple, role), *of_bundle]
        if network.is_spine(switch):
            assert of_bundle == []
            continue
        uplinks = [network.uplink(spine) for spine in range(network.spines)]
        kind = {"ecmp": HashedBundleRow, "spray": SprayedBundleRow}[network.routing]
        assert of_bundle == [
            kind(uplinks[0], network.spines),
            *(BundleMemberRow(number, port) for number, port in enumerate(uplinks)),
            *(UplinkRow(port, uplinks[0]) for port in uplinks[1:]),
        ]
        # A program without servers compares no ports.
        routes = rows_of_switch([row for row in rows if isinstance(row, Route)], network, switch)
        assert not any(isinstance(row, UplinkRow) for row in routes) and set(routes) <= set(own)


@pytest.mark.parametrize("design", ["hotset", "collect"])
def test_a_restarted_leaf_gets_the_rows_of_its_bundle(design: str) -> None:
    config = Config(topology="leaf-spine", spines=2, hot_sets="leaves", routing="spray", design=design)
    network = config.leaf_spine
    assert network is not None
    for leaf in network.leaf_switches:
        of_bundle = {*bundle_rows(network, leaf)}
        assert of_bundle and of_bundle <= {*initial_rows(config, epoch=2, switch=leaf)}


@pytest.mark.parametrize("hosts", range(CPU_PORT - 4, CPU_PORT + 2))
def test_no_member_of_a_bundle_is_the_port_of_the_cpu(hosts: int) -> None:
    network = LeafSpine(hosts - 1, 1, place="leaves", spines=4, routing="spray")
    ports = members(network, network.leaf_switches[0], network.uplink(0))
    assert len(set(ports)) == 4 and CPU_PORT not in ports and min(ports) > host_port(hosts)


@given(networks)
@example(LeafSpine(80, 20, leaves=8, spines=4))
def test_servers_take_turns_at_spines_or_are_at_their_leaf(network: LeafSpine) -> None:
    homes = [network.home_of(ps) for ps in range(network.servers)]
    if network.place == "spine":
        assert set(homes) == set(range(min(network.spines, network.servers))) == set(network.homes)
        counts = [homes.count(home) for home in network.homes]
        assert max(counts) - min(counts) <= 1
        # With two servers or more at each leaf, and as many spines, none has one uplink for all of them.
        for leaf in network.leaf_switches:
            of_leaf = [homes[ps] for ps in range(network.servers)
                       if network.leaf_of(network.workers + ps + 1) == leaf]  # fmt: skip
            if network.servers % network.spines == 0 and len(of_leaf) >= 2 and network.spines > 1:
                assert len(set(of_leaf)) > 1, (network, homes)
    elif network.place in ("leaves", "both"):
        assert homes == [network.leaf_of(network.workers + ps + 1) for ps in range(network.servers)]
        if network.place == "both":
            spines = [network.home_of(ps | 1 << PS_BITS) for ps in range(network.servers)]
            assert spines == [replace(network, place="spine").home_of(ps) for ps in range(network.servers)]
            assert network.homes == sorted({*homes, *spines})
    else:
        leaves = {network.leaf_of(worker) for worker in range(1, network.workers + 1)}
        assert {network.home_of(number) for number in numbers_of(network, 0)} == leaves
    names = [network.name_of(switch) for switch in network.switches]
    assert len(set(names)) == len(names) and names[network.spines] == "leaf 1"
    assert names[0] == ("spine" if network.spines == 1 else "spine 1")


@given(small_networks)
def test_callers_have_cells_at_homes_and_ports_at_all_switches(network: LeafSpine) -> None:
    rows = initial_rows(Config(workers=network.workers, servers=network.servers))
    one_switch = {(row.job, row.worker): host_at(row.port) for row in rows if isinstance(row, WorkerRow)}
    callers = {
        (job, number): host
        for (job, caller), host in one_switch.items()
        for number in (numbers_of(network, caller) if caller >= PS_CALLER_BASE else [caller])
    }
    for switch in network.switches:
        own = rows_of_switch(rows, network, switch)
        ports = {(row.job, row.worker): row.port for row in own if isinstance(row, CallerPortRow)}
        assert ports == {caller: network.toward_host(switch, host) for caller, host in callers.items()}
        cells = {(row.job, row.worker): row.port for row in own if isinstance(row, WorkerRow)}
        if network.place in ("worker-leaves", "both") and switch in network.homes:
            # A home has cells of workers, at a worker's leaf its own, and of each server by its number there.
            of_home = {
                (job, caller)
                for (job, caller), host in callers.items()
                if (network.home_of(caller & PS_CALLER_BASE - 1) == switch if caller >= PS_CALLER_BASE
                    else network.place == "both" or network.leaf_of(host) == switch)
            }  # fmt: skip
            assert cells == {caller: port for caller, port in ports.items() if caller in of_home}
        else:
            assert cells == (ports if switch in network.homes else {})
        numbers = [row.caller for row in own if isinstance(row, WorkerRow)]
        assert len(set(numbers)) == len(numbers)
        assert any(isinstance(row, JobRow) for row in own) == (switch in network.homes)
        routes = {row.port for row in own if isinstance(row, Route)}
        assert routes == {network.toward_host(switch, host) for host in network.hosts}


@given(networks, st.floats(0.01, 0.99), st.lists(st.integers(0, 2**64 - 2), max_size=40, unique=True))
def test_the_hottest_rows_are_at_a_spine_and_further_rows_at_the_leaf_of_their_server(
    network: LeafSpine, share: float, keys: list[int]
) -> None:
    network = replace(network, place="both", spine_share=share, routing="fixed")
    parts, n_at_spines = network.keys_by_home(keys), round(share * len(keys))
    for rank, key in enumerate(keys):
        [home] = [home for home, own in parts.items() if key in own]
        number = ps_of(key, network.servers) | (rank < n_at_spines) << PS_BITS
        assert home == network.home_of(number) and network.is_spine(home) == (rank < n_at_spines)
    lower, upper = network.keys_by_number(np.array(keys, np.uint64))
    assert (upper.tolist(), lower.tolist()) == (keys[:n_at_spines], keys[n_at_spines:])


@pytest.mark.parametrize(
    ("spines", "oversubscription", "mbit"), [(1, 1.0, 700), (1, 4.0, 175), (2, 4.0, 87.5), (2, 0.5, 700)]
)
def test_uplinks_share_the_bandwidth_of_the_cables_of_the_fullest_leaf_by_the_oversubscription(
    spines: int, oversubscription: float, mbit: float
) -> None:
    # Of eight workers and five servers, the first leaf has four and three.
    network = LeafSpine(8, 5, spines=spines, oversubscription=oversubscription)
    assert network.uplink_mbit(100) == mbit
    assert network.uplink_mbit(0) == 0
