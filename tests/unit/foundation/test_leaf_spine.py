"""A network of leaves and a spine: its ports lead to the hosts, and each switch has the rows for its role."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from controller.network_rows import rows_of_switch
from controller.tables import NO_PORT, CallerPortRow, HomeRow, JobRow, Route, ServerRow, WorkerRow
from experiment.design_parts import initial_rows
from experiment.run_config import Config
from foundation.protocol.addressing import CPU_PORT, host_port
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import PS_BITS, PS_CALLER_BASE
from foundation.protocol.leaf_spine import HotSetPlace, LeafSpine, host_at

networks = st.builds(
    LeafSpine,
    workers=st.integers(1, 300),
    servers=st.integers(1, 60),
    leaves=st.integers(2, 6),
    place=st.sampled_from(get_args(HotSetPlace)),
    spines=st.integers(1, 3),
)


def other_end(network: LeafSpine, switch: int, port: int) -> int | None:
    """Return the switch at the other end of a port; None for a host's port."""
    for leaf, spine in network.links():
        if (switch, port) == (spine, network.downlink(leaf)):
            return leaf
        if (switch, port) == (leaf, network.uplink(spine)):
            return spine
    return None


def walk(network: LeafSpine, start: int, host: int) -> list[int]:
    """Return the switches that a frame passes which each switch sends toward a host."""
    passed, switch = [start], start
    while (following := other_end(network, switch, network.toward_host(switch, host))) is not None:
        switch = following
        passed.append(switch)
        assert len(passed) <= 3
    assert network.toward_host(switch, host) == host_port(host)
    return passed


@given(networks, st.data())
def test_ports_toward_a_host_lead_to_its_leaf(network: LeafSpine, data: st.DataObject) -> None:
    host = data.draw(st.sampled_from(network.hosts))
    for switch in network.switches:
        assert walk(network, switch, host)[-1] == network.leaf_of(host)
    assert host_at(host_port(host)) == host


@given(networks)
def test_each_port_of_a_switch_has_one_end(network: LeafSpine) -> None:
    ports = list(network.ports())
    assert len(set(ports)) == len(ports) and CPU_PORT not in (port for _, port in ports)
    hosts = [port for switch, port in ports if other_end(network, switch, port) is None]
    assert sorted(hosts) == [host_port(host) for host in network.hosts]
    # Workers and servers each take turns at the leaves.
    for kind in (network.hosts[: network.workers], network.hosts[network.workers :]):
        sizes = [sum(network.leaf_of(host) == leaf for host in kind) for leaf in network.leaf_switches]
        assert max(sizes) - min(sizes) <= 1


def numbers_of(network: LeafSpine, ps: int) -> list[int]:
    """Return the numbers of a server, one for each home of it."""
    homes = {"worker-leaves": len(network.homes), "both": 2}.get(network.place, 1)
    return [ps | index << PS_BITS for index in range(homes)]


@given(
    st.integers(2, 6), st.integers(1, 5), st.integers(2, 3), st.sampled_from(get_args(HotSetPlace)),
    st.integers(1, 3),
)  # fmt: skip
def test_packets_pass_the_home_of_their_server(
    workers: int, servers: int, leaves: int, place: HotSetPlace, spines: int
) -> None:
    """By the rows alone: from a caller to the home, from there to the server, and back from both."""
    network = LeafSpine(workers, servers, leaves, place, spines)
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
            behind = walk(network, home, server)[1:]
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
                way = walk(network, home, host)
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
def test_packets_between_two_leaves_take_one_spine_both_ways(network: LeafSpine, data: st.DataObject) -> None:
    """So a request comes to a leaf by the port that leads toward its caller, which the program checks."""
    hosts = data.draw(st.lists(st.sampled_from(network.hosts), min_size=2, max_size=2))
    leaves = [network.leaf_of(host) for host in hosts]
    there, back = walk(network, leaves[0], hosts[1]), walk(network, leaves[1], hosts[0])
    assert there == back[::-1] and len(there) == (1 if leaves[0] == leaves[1] else 3)
    for passed, host in zip(there[1:], there[:-1], strict=True):
        assert other_end(network, passed, network.toward_host(passed, hosts[0])) == host


@given(networks)
@example(LeafSpine(80, 20, leaves=8, spines=4))
def test_servers_take_turns_at_spines_or_are_at_their_leaf(network: LeafSpine) -> None:
    homes = [network.home_of(ps) for ps in range(network.servers)]
    if network.place == "spine":
        assert set(homes) == set(range(min(network.spines, network.servers))) == set(network.homes)
        counts = [homes.count(home) for home in network.homes]
        assert max(counts) - min(counts) <= 1
        # With two servers or more at each leaf, and as many spines, none has one uplink for all of them.
        for leaf in range(network.leaves):
            of_leaf = homes[leaf :: network.leaves]
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


@given(st.integers(2, 6), st.integers(1, 5), st.sampled_from(get_args(HotSetPlace)), st.integers(1, 3))
def test_callers_have_cells_at_homes_and_ports_at_all_switches(
    workers: int, servers: int, place: HotSetPlace, spines: int
) -> None:
    network = LeafSpine(workers, servers, 2, place, spines)
    rows = initial_rows(Config(workers=workers, servers=servers))
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
        if place in ("worker-leaves", "both") and switch in network.homes:
            # A home has cells of workers, at a worker's leaf its own, and of each server by its number there.
            of_home = {
                (job, caller)
                for (job, caller), host in callers.items()
                if (network.home_of(caller & PS_CALLER_BASE - 1) == switch
                    if caller >= PS_CALLER_BASE else place == "both" or network.leaf_of(host) == switch)
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
def test_the_hottest_rows_are_at_a_spine_and_the_others_at_the_leaf_of_their_server(
    network: LeafSpine, share: float, keys: list[int]
) -> None:
    network = replace(network, place="both", spine_share=share)
    parts, n_at_spines = network.keys_by_home(keys), round(share * len(keys))
    for rank, key in enumerate(keys):
        [home] = [home for home, own in parts.items() if key in own]
        number = ps_of(key, network.servers) | (rank < n_at_spines) << PS_BITS
        assert home == network.home_of(number) and network.is_spine(home) == (rank < n_at_spines)
    lower, upper = network.keys_by_number(np.array(keys, np.uint64))
    assert (upper.tolist(), lower.tolist()) == (keys[:n_at_spines], keys[n_at_spines:])
