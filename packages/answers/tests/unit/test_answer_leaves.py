"""Answers for networks of leaves and a spine."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.optimisers import Adagrad
from foundation.protocol.leaf_spine import HotSetPlace, LeafSpine
from hotline_answers.cluster_answer.cluster import Cluster, config_for, part_of
from hotline_answers.cluster_answer.sensitivity import _variants, input_part
from hotline_answers.cluster_answer.sentences import _leaves
from hotline_simulator.config import SimulationError
from packages.answers.tests.harness.capacities import capacities_of
from switch_harness.wording import mentions, says
from tests.harness.cli import invoke

pytestmark = pytest.mark.usefixtures("small_workload")

CLUSTER: dict[str, Any] = {"workers": 8, "servers": 2, "keys_per_step": 300, "leaves": 2, "dim": 1}


def test_hosts_of_a_leaf_share_its_uplink() -> None:
    config = config_for(Cluster(**CLUSTER, oversubscription=4, placement="leaves"))
    assert config.leaf_spine == LeafSpine(8, 2, 2, "leaves", oversubscription=4)
    assert config.leaf_spine.uplink_mbit(10_000) == 5 * 10_000 / 4  # of four workers and a server
    assert config_for(Cluster(**CLUSTER | {"leaves": None})).leaf_spine is None
    two = config_for(Cluster(**CLUSTER, oversubscription=4, spines=2))
    assert two.leaf_spine == LeafSpine(8, 2, 2, "spine", 2, oversubscription=4)
    assert two.leaf_spine.uplink_mbit(10_000) == 5 * 10_000 / 4 / 2


def test_narrow_uplinks_of_two_leaves_carry_fewer_steps_with_the_hot_set_at_the_spine() -> None:
    """Half of the packets would stay at their leaf, and now go up and down."""

    def capacities(oversubscription: float, placement: HotSetPlace) -> tuple[float, float]:
        return capacities_of(Cluster(**CLUSTER, oversubscription=oversubscription, placement=placement))

    (wide, wide_spine), (narrow, spine), (same, leaves) = (
        capacities(1, "spine"), capacities(400, "spine"), capacities(400, "leaves")
    )  # fmt: skip
    assert narrow == same < 0.8 * wide
    assert wide_spine > 1.1 * wide
    assert spine < 0.8 * narrow < leaves


def test_sums_at_the_workers_leaves_cost_narrow_uplinks_less_than_a_hot_set_at_the_spine() -> None:
    """Nothing goes up of RPCs whose rows are all hot, but servers collect, so two leaves carry no more."""
    cluster = Cluster(**CLUSTER, top_k=500, oversubscription=40)
    without, spine = capacities_of(cluster)
    _, sums = capacities_of(cluster.model_copy(update={"placement": "worker-leaves"}))
    assert without > sums > 1.1 * spine


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"racks": 2}, ("--leaves 2", "--racks 2")),
        ({"switch": "tofino"}, ("ideal", "softswitch", "tofino")),
        ({"workers": 400}, ("400", "expected at most", "leaves")),
        ({"workers": 400, "optimiser": Adagrad()}, ("400", "expected at most", "optimiser")),
    ],
)
def test_networks_of_leaves_beyond_the_simulator_are_refused(
    settings: dict[str, Any], named: tuple[str, ...]
) -> None:
    cluster = Cluster(**CLUSTER | settings)
    with pytest.raises(SimulationError, match=mentions(*named)):
        config_for(cluster, part_of(cluster, 100))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--placement", "leaves"), ("--placement", "leaves", "--leaves")),
        (("--oversubscription", 4), ("--oversubscription", "4", "--leaves")),
        (("--leaves", 1), ("leaves", "1")),
        (("--spines", 2), ("--spines", "2", "--leaves")),
        (("--leaves", 2, "--spines", 9), ("spines", "9", "8")),
    ],
)
def test_options_of_leaves_need_leaves(options: tuple[object, ...], named: tuple[str, ...]) -> None:
    result = invoke("answer", "--workers", 4, "--servers", 2, *options)
    assert result.exit_code != 0 and says(result.output, *named)


def test_effects_of_a_network_are_of_the_whole_and_have_the_other_placement() -> None:
    cluster = Cluster(**CLUSTER | {"workers": 40}, placement="leaves")
    part, _ = input_part(cluster, None)
    assert part.is_whole
    others = [each for each in _variants(cluster, None, 300) if each.input == "hot set"]
    assert {other.value for other in others} == {"at the leaves of the servers"}
    placements = [(other.cluster.placement, other.cluster.design) for other in others]
    assert placements == [
        ("spine", "hotset"), ("both", "hotset"), ("worker-leaves", "collect")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("placement", "place"),
    [
        ("spine", "at the spines, by server"),
        ("leaves", "at the leaves of the servers"),
        ("both", "half of the rows at the leaves of the servers"),
        ("worker-leaves", "at the leaves of the workers"),
    ],
)
def test_a_sentence_names_several_spines(placement: str, place: str) -> None:
    cluster = Cluster(**CLUSTER | {"placement": placement}, oversubscription=4, spines=2)
    network = cluster.network_of_leaves
    assert network is not None
    assert says(_leaves(network, config_for(cluster)), "each of 2 spines", "6.25 Gbit/s", place)


def test_a_sentence_names_leaves_uplinks_and_the_place_of_the_hot_set() -> None:
    cluster = Cluster(**CLUSTER, oversubscription=4, placement="leaves")
    network = cluster.network_of_leaves
    assert network is not None
    sentence = _leaves(network, config_for(cluster))
    assert says(
        sentence, "2 leaves", "up to 5", "12.5 Gbit/s", "at the leaves of the servers", "shortest way"
    )
