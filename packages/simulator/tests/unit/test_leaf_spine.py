"""Networks of leaves and a spine in virtual time: pushes are held once, and homes alone have hot keys."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.record import SimulatedArm
from controller.tables import HotParam
from experiment.errors import ConfigError
from experiment.run_config import config_of
from foundation.designs.collect import BASELINE as COLLECT_BASELINE
from foundation.designs.collect import COLLECT
from foundation.designs.hotset import BASELINE, OFFLOAD, OFFLOAD_PROXY, PROXY
from foundation.designs.interface import Arm
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, VALUE_BYTES
from foundation.protocol.leaf_spine import SPINE, HotSetPlace, LeafSpine, Routing
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.experiment import quiet_reporter, simulate_closed_loops
from hotline_simulator.leaf_spine_switches import LeafSpineSwitches
from packages.simulator.tests.unit.networks import PARAMETERS, SOUND, RandomTestbed
from softswitch.network.state import ABSENT
from switch_harness.wording import mentions
from tests.harness.traces import trace_of

HALF = range(0, PARAMETERS, 2)
PLACES = get_args(HotSetPlace)
PLACES_OF_HOTSET = tuple(place for place in PLACES if place != "worker-leaves")


def make_testbed(
    arm: Arm, topology: LeafSpine, network: Network = SOUND, seed: int = 1, cores: int | None = None
) -> RandomTestbed:
    return RandomTestbed(
        arm, topology.workers, topology.servers, network, HostCosts(worker_cores=cores), HALF, seed,
        topology=topology,
    )  # fmt: skip


def operate_to_rest(testbed: RandomTestbed, count: int) -> None:
    """Let each worker do so many operations, and check that pushes are held, and that no frame is left."""
    testbed.operate(count)
    testbed.network.hold()
    testbed.settle()
    assert (testbed.stored_values() == testbed.ledger.sums).all() and testbed.ledger.lanes > 0
    world = testbed.network.world
    assert world.header.events == 0 and world.header.free == len(world.frames)
    arrived = np.zeros(len(world.switches), np.int64)
    for links in (world.up, world.down, world.racks_up, world.racks_down):
        assert (links.delivered == links.frames + links.doubled - links.dropped - links.lost).all()
    for number, interface in enumerate(world.interfaces):
        peer = int(interface.peer)
        switch = int(world.interfaces[peer].switch)
        if peer != ABSENT and switch != ABSENT:
            arrived[switch] += int(world.links[number].delivered)
    assert (world.switches.passes == arrived).all()


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.floats(0, 0.3),
    duplication=st.floats(0, 0.3),
    reordering=st.floats(0, 0.3),
    workers=st.integers(3, 6),
    servers=st.integers(1, 5),
    leaves=st.integers(2, 3),
    spines=st.integers(1, 2),
    fills_leaves=st.booleans(),
    routing=st.sampled_from(get_args(Routing)),
    placed_arm=st.sampled_from(
        [
            *product(PLACES_OF_HOTSET, (BASELINE, PROXY, OFFLOAD, OFFLOAD_PROXY)),
            *product((place for place in PLACES if place != "both"), (COLLECT_BASELINE, COLLECT)),
        ]
    ),
)
def test_no_update_is_lost_or_doubled_on_any_network_of_leaves(
    seed: int, loss: float, duplication: float, reordering: float, workers: int, servers: int, leaves: int,
    spines: int, fills_leaves: bool, routing: Routing, placed_arm: tuple[HotSetPlace, Arm],
) -> None:  # fmt: skip
    place, arm = placed_arm
    network = Network(loss=loss, duplication=duplication, reordering=reordering)
    hosts_per_leaf = -(-(workers + servers) // leaves) if fills_leaves else 0
    topology = LeafSpine(workers, servers, leaves, place, spines, hosts_per_leaf)
    if not any(map(topology.is_spine, topology.homes)):
        topology = replace(topology, routing=routing)
    operate_to_rest(make_testbed(arm, topology, network, seed), 4)


@pytest.mark.parametrize("place", PLACES_OF_HOTSET)
def test_a_hot_key_is_at_the_home_of_its_server_alone(place: HotSetPlace) -> None:
    topology = LeafSpine(4, 3, 2, place)
    testbed = make_testbed(OFFLOAD, topology)
    operate_to_rest(testbed, 12)
    assert isinstance(testbed.switch, LeafSpineSwitches)
    for number, switch in enumerate(testbed.switch._switches):
        keys = set(topology.keys_by_home(HALF).get(number, []))
        of_home = {
            ps for ps in range(3) for own in topology.numbers_of(ps) if topology.home_of(own) == number
        }
        assert {ps_of(key, topology.servers) for key in keys} == of_home
        loaded = switch._loaded_rows.get(OFFLOAD.job, [])
        assert {row.key for row in loaded if isinstance(row, HotParam)} == keys
        stored = switch.stored_values(OFFLOAD.job, testbed.space)
        assert set(np.flatnonzero(stored).tolist()) <= keys
        assert (len(np.flatnonzero(stored)) > 10) == bool(keys)


@pytest.mark.parametrize("place", PLACES_OF_HOTSET)
def test_leaves_and_home_determine_the_switches_on_the_way(place: HotSetPlace) -> None:
    """Without hot keys each RPC passes each switch of its way, once each way."""
    for workers, servers in ((2, 1), (2, 2)):
        topology = LeafSpine(workers, servers, 2, place)
        testbed = make_testbed(BASELINE, topology)
        operate_to_rest(testbed, 6)
        world = testbed.network.world
        requests = int(world.up.frames[:workers].sum())
        assert int(world.up.frames[workers:].sum()) == requests
        passes = world.switches.passes.tolist()
        assert passes[1] + passes[2] > passes[SPINE] > 0
        # What goes up to the spine comes down to one leaf.
        assert world.racks_up.frames.sum() == world.racks_down.frames.sum() == passes[SPINE]
        if servers == 1 and place == "leaves":
            # The server is at the first leaf: RPCs of the worker there do not leave the leaf.
            assert passes[SPINE] == 2 * int(world.up.frames[1])
        if place == "spine":
            assert passes[SPINE] == 2 * requests


@pytest.mark.parametrize("arm", [BASELINE, OFFLOAD_PROXY])
def test_sprayed_frames_share_out_the_uplinks_of_each_leaf(arm: Arm) -> None:
    """With racks of workers and a rack of servers, all frames of workers cross spines."""
    topology = LeafSpine(4, 2, 3, "leaves", spines=4, hosts_per_leaf=2, routing="spray")
    testbed = make_testbed(arm, topology)
    operate_to_rest(testbed, 6)
    world = testbed.network.world
    up = world.racks_up.frames.reshape(topology.leaves, topology.spines)
    assert (up.max(axis=1) - up.min(axis=1) <= 1).all() and up.min() > 0
    passes = world.switches.passes.tolist()
    assert passes[: topology.spines] == up.sum(axis=0).tolist()
    assert up.sum() == 2 * world.up.frames[: topology.workers].sum()


@pytest.mark.parametrize(("design", "arm"), [("hotset", BASELINE.name), ("none", "none")])
@pytest.mark.parametrize("routing", get_args(Routing))
def test_a_simulation_has_the_routing_and_the_racks_of_its_settings(
    design: str, arm: str, routing: Routing
) -> None:
    trace = replace(trace_of([[1]] * 24), workers=2, steps=12)
    settings = {
        "workers": 2, "servers": 1, "top_k": 1, "design": design, "topology": "leaf-spine", "leaves": 3,
        "spines": 2, "hosts_per_leaf": 1, "hot_sets": "leaves", "routing": routing,
    }  # fmt: skip
    config = config_of(SimulationConfig, settings).model_copy(update={"arms": (arm,)})
    loop = simulate_closed_loops(config, trace, quiet_reporter(), None)[arm].arm
    assert loop.server_packets == 2
    # A pull and a push of a worker go up at one leaf and down at another, and their answers likewise.
    frames = 4 * (FRAME_OVERHEAD + HEADER_BYTES) + 2 * KEY_BYTES + 2 * VALUE_BYTES
    assert loop.uplink_bytes == 2 * frames


def test_a_closed_loop_counts_packets_at_servers_and_bytes_on_uplinks() -> None:
    """Two workers, of which one is at the server's leaf, pull and push one key in each step."""
    trace = replace(trace_of([[1]] * 24), workers=2, steps=12)
    frames = 4 * (FRAME_OVERHEAD + HEADER_BYTES) + 2 * KEY_BYTES + 2 * VALUE_BYTES

    def loop_of(design: str, place: HotSetPlace) -> SimulatedArm:
        topology = {"topology": "leaf-spine", "hot_sets": place}
        settings = {"workers": 2, "servers": 1, "top_k": 1, "design": design, **topology}
        config = config_of(SimulationConfig, settings)
        arm = BASELINE.name if design == "hotset" else "none"
        config = config.model_copy(update={"arms": (arm,)})
        return simulate_closed_loops(config, trace, quiet_reporter(), None)[arm].arm

    for design in ("none", "hotset"):
        for place in PLACES_OF_HOTSET:
            loop = loop_of(design, place)
            assert loop.server_packets == 2 and 50 < loop.pull_us < 500
            assert loop.uplink_bytes == frames  # of the other leaf's worker, up and down


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"network": {"rack": 4}}, ("network.rack (4)", "leaves")),
        ({"network": {"uplink_mbit": 500}}, ("network.uplink_mbit (500)", "oversubscription")),
        (
            {"network": {"rate_mbit": 0}, "oversubscription": 2},
            ("oversubscription (2)", "network.rate_mbit 0"),
        ),
        ({"cable_mbit": 100}, ("cable_mbit (100)", "network.rate_mbit")),
        ({"hosts": {"program_ns": 100}}, ("hosts.program_ns (100)", "devices")),
        ({"workers": 300, "servers": 209}, ("510 ports", "509")),
    ],
)
def test_settings_without_a_meaning_for_leaves_are_refused(
    settings: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=mentions(*named)):
        config_of(SimulationConfig, {"workers": 8, "topology": "leaf-spine", **settings})


@pytest.mark.parametrize("spines", [1, 2])
@pytest.mark.parametrize("oversubscription", [1.0, 4.0])
@pytest.mark.parametrize("hosts_per_leaf", [0, 3])
def test_the_uplinks_of_a_leaf_have_the_bandwidth_of_its_hosts_by_the_oversubscription(
    oversubscription: float, spines: int, hosts_per_leaf: int
) -> None:
    """The leaf with most hosts determines the bandwidth of all uplinks."""
    topology = LeafSpine(
        2, 2, spines=spines, hosts_per_leaf=hosts_per_leaf, oversubscription=oversubscription
    )
    testbed = make_testbed(OFFLOAD, topology, Network(rate_mbit=10_000))
    picoseconds = round(800 * oversubscription * spines / (hosts_per_leaf or 2))
    world = testbed.network.world
    assert world.up.picoseconds_per_byte.tolist() == [800] * 4
    assert world.racks_up.picoseconds_per_byte.tolist() == [picoseconds] * 2 * spines
    assert world.racks_down.picoseconds_per_byte.tolist() == [picoseconds] * 2 * spines
