"""What hosts and cables are like comes from a configuration, or from what a run has measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from foundation.errors import DataError
from hotline_agents.interface import NEVER
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import (
    HostCosts,
    LinkOutage,
    Network,
    costs_of,
    links_of,
    measured_times,
    outages_of,
    pass_times_of,
    switch_times_of,
    uplink_mbit,
    uplinks_of,
)
from hotline_simulator.state import QUANTILES
from switch_harness.wording import mentions
from tests.harness.records import a_block, a_record


@pytest.mark.parametrize(
    "network",
    [
        {"delay_us": 1e300}, {"extra_delay_us": 1e300}, {"queue_kb": 1e300}, {"mark_kb": 1e19},
        {"rate_mbit": 1e300}, 
        {"switch_us": 1e300}, {"switch_mpps": 1e300}, {"switch_mpps": 1e-300}, {"rate_mbit": 1e-300},
        {"uplink_mbit": 1e-300}, {"rack": 10**400},
        {"outages": [{"host": "w1", "from_ms": 1e300, "duration_ms": 1}]},
    ],
)  # fmt: skip
def test_network_settings_beyond_the_range_of_the_clock_are_refused(network: dict[str, Any]) -> None:
    expected = r"less than or equal|expected 0 \(unlimited\) or at least 0\.0"
    with pytest.raises(ValidationError, match=expected):
        Network.model_validate(network)


def test_given_costs_are_the_same_for_every_rpc() -> None:
    costs = costs_of(
        HostCosts(receive_ns=7, serve_ns=9, lane_ns=2, value_ns=0.5, take_ns=3, send_ns=4, program_ns=5)
    )
    assert set(costs.receive_ns) == {7} and set(costs.serve_ns) == {9}
    assert (costs.lane_ns, costs.value_ns, costs.take_ns, costs.serve_take_ns) == (2, 0.5, 3, 3)
    assert costs_of(HostCosts(value_ns=0.5, server_share=0.25)).value_ns == 2
    assert (costs.send_ns, costs.serve_send_ns) == (4, 4)
    assert costs.program_runs_at_sender == 1 and costs_of(HostCosts()).program_runs_at_sender == 0


def test_passes_take_time_by_their_sender_and_only_on_its_core() -> None:
    """Keys are looked up in arms whose switch aggregates."""
    hosts = HostCosts(program_ns=1, lookup_ns=20, answer_ns=300, hit_ns=4_000)
    assert pass_times_of(hosts, "offload") == (21, 301, 4_000)
    assert pass_times_of(hosts, "baseline") == (1, 1, 4_000)
    assert pass_times_of(hosts.model_copy(update={"program_ns": None}), "offload") == (0, 0, 0)


def test_measured_costs_are_drawn_from_a_runs_quantiles(tmp_path: Path) -> None:
    """Times are those of measured RPCs; `PS_proc` only of those that a PS answered."""
    times = {"w_proc_us": [*np.linspace(1, 2, 1001), 500.0], "ps_proc_us": [*np.linspace(0, 4, 1001), 500.0]}
    rows = pl.DataFrame({**times, "arm": "baseline", "measured": [True] * 1001 + [False]})
    rows.write_parquet(tmp_path / "rpc.parquet")
    costs = costs_of(HostCosts(measured=tmp_path, lane_ns=35, value_ns=1))
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    assert costs.receive_ns == pytest.approx(1000 + 1000 * at, abs=1.5)
    assert costs.serve_ns == pytest.approx(4000 * at, abs=8)
    assert (costs.lane_ns, costs.value_ns) == (0, 0)


def test_measured_costs_are_of_the_named_arm_or_else_of_all_arms(tmp_path: Path) -> None:
    rows = {"arm": ["baseline", "offload"], "w_proc_us": [1.0, 2.0], "ps_proc_us": [3.0, 5.0]}
    pl.DataFrame({**rows, "measured": True}).write_parquet(tmp_path / "rpc.parquet")
    found = [
        (costs.receive_ns.mean(), costs.serve_ns.mean())
        for costs in map(
            partial(costs_of, HostCosts(measured=tmp_path)), ("baseline", "offload", "proxy", None)
        )
    ]
    assert found == [(1000, 3000), (2000, 5000), *[pytest.approx((1500, 4000), abs=1)] * 2]


def test_measured_costs_are_of_undisturbed_blocks(tmp_path: Path) -> None:
    rows = {"arm": "baseline", "round": [0, 1, 2], "load": 0.5, "w_proc_us": [1.0, 90.0, 1.0]}
    pl.DataFrame({**rows, "ps_proc_us": [3.0, 80.0, 3.0], "measured": True}).write_parquet(
        tmp_path / "rpc.parquet"
    )
    record = a_record(blocks=[a_block(number, "baseline") for number in range(3)])
    for disturbed, is_one in ((["steal"], True), ([], False)):
        record.blocks[1].disturbed = disturbed
        record.write(tmp_path)
        costs = costs_of(HostCosts(measured=tmp_path), "baseline")
        assert bool(costs.receive_ns.max() == 1_000) is bool(costs.serve_ns.max() == 3_000) is is_one


def test_a_run_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=mentions("nowhere", "run")):
        measured_times(tmp_path / "nowhere")
    rows = {"arm": ["baseline"], "w_proc_us": [1.0], "ps_proc_us": [0.0], "measured": [True]}
    pl.DataFrame(rows).write_parquet(tmp_path / "rpc.parquet")
    with pytest.raises(DataError, match=mentions("RPC", "PS")):
        measured_times(tmp_path)


def test_links_are_in_picoseconds_a_byte_and_in_bytes() -> None:
    links = links_of(Network(rate_mbit=10_000, delay_us=2.5, queue_kb=64, mark_kb=16, loss=0.1), 3)
    assert len(links) == 3
    for link in links:
        assert (link.picoseconds_per_byte, link.delay) == (800, 2_500)
        assert (link.limit, link.ecn_threshold) == (65_536, 16_384)
        assert link.is_impaired and link.loss == 0.1
    free = links_of(Network(rate_mbit=0), 1)[0]
    assert (free.picoseconds_per_byte, free.ecn_threshold, free.is_impaired) == (0, NEVER, 0)


def test_a_rack_has_the_sum_of_its_workers_bandwidths_unless_given() -> None:
    assert len(uplinks_of(Network(), 0, 10_000)) == 0
    network = Network(rate_mbit=1_000, loss=0.5)
    racks = uplinks_of(network, 3, uplink_mbit(network, 4))
    assert len(racks) == 3 and (racks.picoseconds_per_byte == 2_000).all()
    assert (racks.is_impaired == 0).all() and (racks.loss == 0).all()
    assert uplink_mbit(Network(uplink_mbit=500), 4) == 500


def test_a_switch_takes_ns_of_a_frame_and_ps_between_two() -> None:
    assert switch_times_of(Network()) == (0, 0)
    assert switch_times_of(Network(switch_us=0.4, switch_mpps=4_700)) == (400, 213)
    assert switch_times_of(Network(switch_mpps=0.000_001)) == (0, 10**12)


def test_outages_are_of_hosts_by_their_names() -> None:
    down = LinkOutage(host="w2", from_ms=1, duration_ms=0.5)
    late = LinkOutage(host="p1", from_ms=0, duration_ms=2, every_ms=10, extra_delay_us=1.5)
    first, other = outages_of(Network(outages=(down, late)), 4)
    assert (first.host, first.begin_ns, first.duration_ns, first.period_ns) == (1, 1_000_000, 500_000, 0)
    assert (first.extra_delay_ns, first.drops_frames) == (0, 1)
    assert (other.host, other.begin_ns, other.duration_ns, other.period_ns) == (4, 0, 2_000_000, 10_000_000)
    assert (other.extra_delay_ns, other.drops_frames) == (1_500, 0)


def outage(host: str, **changes: int) -> dict[str, Any]:
    return {"outages": [{"host": host, "from_ms": 0, "duration_ms": 1, **changes}]}


@pytest.mark.parametrize(
    ("network", "hosts", "complaint"),
    [
        (outage("w5"), {}, "expected a host from w1 to w4 or p1 to p2, got 'w5'"),
        (outage("p3"), {}, "expected a host from w1 to w4 or p1 to p2, got 'p3'"),
        (outage("s1"), {}, "network.outages.0.host"),
        (outage("w1", every_ms=1), {}, r"every_ms \(1\) must be more than duration_ms \(1\)"),
        ({"rack": 1}, {}, "network.rack"),
        ({"switch_us": 1.5}, {"program_ns": 5}, r"network.switch_us \(1.5\) and hosts.program_ns \(5\) excl"),
        (
            {"switch_mpps": 100},
            {"program_ns": 0},
            r"network.switch_mpps \(100.0\) and hosts.program_ns \(0\)",
        ),
        ({"traffic_manager": True}, {"program_ns": 5}, r"network.traffic_manager \(true\) and hosts"),
        ({"rack": 2}, {"program_ns": 5}, r"network.rack \(2\) and hosts.program_ns \(5\) exclude each other"),
    ],
)
def test_an_impossible_network_is_refused(
    network: dict[str, Any], hosts: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        SimulationConfig.model_validate({"network": network, "hosts": hosts})


@pytest.mark.parametrize(
    ("lanes", "changes", "complaint"),
    [
        (12, {}, "network.switch_lanes"),
        (16, {"top_k": 57_345}, r"top_k \(57345\) must be at most 57,344 with network.switch_lanes \(16\)"),
        (8, {"design": "collect"}, r"network.switch_lanes \(8\) and design collect: expected 32"),
    ],
)
def test_rpcs_of_few_lanes_have_limits(lanes: int, changes: dict[str, Any], complaint: str) -> None:
    SimulationConfig.model_validate({"network": {"switch_lanes": 16}, "top_k": 57_344})
    with pytest.raises(ValidationError, match=complaint):
        SimulationConfig.model_validate({"network": {"switch_lanes": lanes}, **changes})
