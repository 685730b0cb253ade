"""The published results of networks of leaves and a spine."""

from __future__ import annotations

from collections import Counter

import pytest

from foundation.protocol.header import LANES
from hotline_answers.network_levels import points as level_points
from hotline_answers.networks import (
    COMPARED,
    COMPUTE_MS,
    LEAVES,
    MORE_ROWS,
    PLACEMENTS,
    SERVERS,
    TOP_K,
    WORKERS,
    NetworkResult,
    PlacementPoint,
    config_at,
    points,
    result_at,
)
from packages.answers.evidence_of_networks import tables_of
from tools.evidence.result import published_table


def test_the_published_gains_and_costs_equal_simulations() -> None:
    without, spine = result_at(COMPARED), result_at(COMPARED._replace(placement="spine"))
    gain = published_table("leaf-spine-gain").cell("1, 1 Gbit/s, 8, at the spine, 20,000", "5 ms")
    assert gain == pytest.approx(spine.capacity / without.capacity, rel=0.005)
    table = published_table("leaf-spine-cost")
    sums = result_at(COMPARED._replace(placement="worker-leaves"))
    for row, cost in (("1, none, 0", without), ("1, at the workers' leaves, 20,000", sums)):
        expected = {
            "packets to servers": cost.server_packets, "servers' CPU, µs": cost.servers_cpu_us,
            "kB on uplinks": cost.uplink_kb, "time of a pull, ms": cost.pull_us / 1e3,
            "age of copies, ms": cost.age_ms, "steps/s": cost.capacity,
        }  # fmt: skip
        for column, value in expected.items():
            published = table.cell(row, column)
            assert published is value is None or published == pytest.approx(value, rel=0.01), column


def test_the_published_gains_and_costs_of_both_levels_equal_simulations() -> None:
    without, both = result_at(COMPARED), result_at(COMPARED._replace(placement="both", top_k=MORE_ROWS))
    gain = published_table("leaf-spine-levels-gain").cell("1, 1 Gbit/s, 8, at both levels, 100,000", "5 ms")
    assert gain == pytest.approx(both.capacity / without.capacity, rel=0.005)
    table, row = published_table("leaf-spine-levels-cost"), "1, at both levels, 100,000"
    assert table.cell(row, "packets to servers") == pytest.approx(both.server_packets, rel=0.005)
    assert table.cell(row, "servers' CPU, µs") == pytest.approx(both.servers_cpu_us, rel=0.01)
    assert table.cell(row, "kB on uplinks") == pytest.approx(both.uplink_kb, rel=0.005)
    cells = [row.cells for row in published_table("leaf-spine-levels-gain").rows]
    compared = [point for point in level_points() if point.placement == "both"]
    assert len(cells) * len(COMPUTE_MS) == len(compared) and all(None not in row for row in cells)


def test_each_network_has_a_cell_for_each_computing_time() -> None:
    found = published_table("leaf-spine-gain")
    of_default = [point for point in points() if point[-2:] == COMPARED[-2:]]
    compared = [point for point in of_default if point.placement not in ("none", "sums at the spine")]
    assert len(found.rows) * len(COMPUTE_MS) == len(compared)
    assert all(cell is not None for row in found.rows for cell in row.cells)
    networks = Counter(point[:4] for point in of_default if point.placement != "sums at the spine")
    assert set(networks.values()) == {len(PLACEMENTS), len(PLACEMENTS) - 1}  # longer rows do not fit so often


def test_the_configuration_of_a_point_has_the_values_of_the_point() -> None:
    config = config_at(COMPARED._replace(placement="leaves", top_k=MORE_ROWS))
    assert config.leaf_spine is not None
    assert (config.workers, config.servers, config.leaf_spine.leaves) == (WORKERS, SERVERS, LEAVES)
    assert config.leaf_spine.spines == 1
    assert len(config.leaf_spine.homes) == LEAVES
    # 10 workers and 3 servers at a leaf, at 1 Gbit/s each.
    assert config.leaf_spine.uplink_mbit(config.network.rate_mbit) == 13_000 / 8
    assert config.network.switch_lanes == LANES and config.worker.compute_ns == 5_000_000
    four = config_at(COMPARED._replace(spines=4))
    assert four.leaf_spine is not None and four.leaf_spine.homes == [0, 1, 2, 3]
    assert four.leaf_spine.uplink_mbit(four.network.rate_mbit) == 13_000 / 8 / 4
    summing = config_at(COMPARED._replace(placement="worker-leaves"))
    assert (summing.design, summing.hot_sets, summing.arms) == ("collect", "worker-leaves", ("collect",))
    assert summing.leaf_spine is not None and len(summing.leaf_spine.homes) == LEAVES
    for top_k, share in ((TOP_K, 0.5), (MORE_ROWS, 0.2)):
        both = config_at(COMPARED._replace(placement="both", top_k=top_k))
        assert (both.hot_sets, both.design, both.spine_share) == ("both", "hotset", share)
    central = config_at(COMPARED._replace(placement="sums at the spine"))
    assert (central.design, central.hot_sets) == ("collect", "spine")
    alone = config_at(COMPARED)
    assert (alone.design, alone.arms, alone.hot_sets) == ("none", ("none",), "spine")


def test_gains_are_of_the_same_network_without_a_hot_set() -> None:
    def result(point: PlacementPoint) -> NetworkResult:
        of_network = 1 + point.dim * point.cables_gbit / point.oversubscription + point.compute_ms
        return NetworkResult(of_network * (1 if point.placement == "none" else point.top_k), 0, 0, 0, 0, None)

    gains = tables_of({point: result(point) for point in points()})["leaf-spine-gain"]
    for row in gains.rows:
        assert row.cells == (float(row.names[-1].replace(",", "")),) * len(COMPUTE_MS)
