"""`hotline answer`: counted packing, computed capacities, sentences, and refused options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.statistics import Comparison
from foundation.optimisers import parse as parse_optimiser
from foundation.protocol.hashing import lane_of
from foundation.protocol.memory import memory_of
from hotline_answers.cluster_answer.arm_results import ArmResult, OffloadComparison, Utilization
from hotline_answers.cluster_answer.ask import capacities
from hotline_answers.cluster_answer.capacity import (
    CalculationCheck,
    CapacityModel,
    next_size_to_check,
    smallest_sufficient_size,
)
from hotline_answers.cluster_answer.cluster import Cluster, Part, config_for
from hotline_answers.cluster_answer.hotset import ScoredWorkload, workload_for
from hotline_answers.cluster_answer.sentences import device, differences, headline, sentences
from hotline_answers.cluster_answer.sizes import PackingCounter, PackingCounts, Size, sizes_for
from hotline_answers.result import answer
from packages.answers.tests.harness.capacities import capacities_of
from simulator.config import SimulationConfig, SimulationError
from simulator.costs import HostCosts
from simulator.devices import DEVICES, DeviceName
from simulator.experiment import quiet_reporter
from switch_harness.wording import mentions, says, says_in_one_line
from tests.harness.cli import invoke, json_of
from tests.harness.summaries import of_ratio
from tests.harness.traces import trace_of
from tools.evidence.result import published_table

pytestmark = pytest.mark.usefixtures("no_input_effects")

SMALL = ("--workers", "4", "--servers", "2", "--keys-per-step", "300", "--top-k", "3000", "--dim", "1")


def quantities(text: str) -> list[str]:
    """Return the numbers of a text with their units or what they count, in their order."""
    number = r"[-+]?\d[\d,]*(?:\.\d+)?"
    return re.findall(rf"{number}(?: %| µs| ns| million| steps/s| hot keys| keys| rounds| times)?", text)


def is_in_order(text: str, *parts: str) -> bool:
    """Return whether a text has these parts in this order."""
    return re.search(".*".join(map(re.escape, parts)), text) is not None


@pytest.fixture(scope="module")
def found() -> Any:
    return json_of("answer", *SMALL, "--rate", 2000)


def test_both_sides_are_simulated_at_the_rate_that_is_asked_for(found: Any) -> None:
    sides = found["sides"]
    assert sides["rate"] == 2000 and sides["rounds"] >= 6
    packets, rpcs = (sides["differences"][name] for name in ("ps_packets_per_step", "rpcs_per_step"))
    assert packets["ratio_high"] < -0.1 < rpcs["ratio_low"] <= rpcs["ratio_high"] < 0.2
    assert packets["ratio_low"] <= packets["ratio"] <= packets["ratio_high"]
    for side in (sides["baseline"], sides["offload"]):
        assert side["capacity"] > 2000
        # Steps of a known length keep cores busy in proportion to how many there are.
        assert 0.1 < side["at_rate"]["workers"] < side["at_capacity"]["workers"] <= 1
        assert 0.05 < side["at_rate"]["servers"] < side["at_capacity"]["servers"] <= 1
    assert sides["offload"]["at_rate"]["servers"] < sides["baseline"]["at_rate"]["servers"]


def test_what_is_counted_is_what_is_simulated(found: Any) -> None:
    """RPCs and packets agree at the requested size of the hot set, capacities at two sizes."""
    asked = next(size for size in found["sizes"] if size["top_k"] == 3000)
    none = found["sizes"][0]
    for size, side in ((none, found["sides"]["baseline"]), (asked, found["sides"]["offload"])):
        assert size["rpcs_per_step"] == pytest.approx(side["rpcs_per_step"], rel=0.03)
        assert size["ps_packets_per_step"] == pytest.approx(side["ps_packets_per_step"], rel=0.03)
        assert size["simulated"] == side["capacity"]
    simulated = [size for size in found["sizes"] if size["top_k"] and size["simulated"] is not None]
    assert len(simulated) == 2
    for size in simulated:
        assert size["capacity"] == pytest.approx(size["simulated"])
    [(_, calculated, checked)] = found["checks"]
    assert calculated == pytest.approx(checked, rel=0.1)
    assert found["stops_at"] in [size["top_k"] for size in found["sizes"]]


@pytest.mark.soak
def test_terminal_and_json_say_the_same(found: Any) -> None:
    result = invoke("answer", *SMALL, "--rate", 2000)
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert found["headline"] in text
    for sentence in found["sentences"]:
        assert sentence in text
    assert f"{found['sides']['baseline']['capacity']:,.0f} without." in found["headline"]
    for size in found["sizes"]:
        assert f"{size['top_k']:,} {100 * size['served']:.0f} % {size['rpcs_per_step']:,.0f}" in text
    # Costs of an RPC and a lane at the servers; time of a frame in the switch, and its frames a second.
    assert any(quantities(each)[:2] == ["0.3 µs", "35 ns"] for each in found["sentences"])
    assert any(quantities(each)[:2] == ["1 µs", "1,000 million"] for each in found["sentences"])


@pytest.mark.soak
def test_a_rate_beyond_the_capacity_is_reported_and_no_error(tmp_path: Path) -> None:
    """`--hosts` sets the costs of agents; cores and switch in that file are ignored."""
    hosts = tmp_path / "hosts.toml"
    hosts.write_text("[hosts]\nworker_cores = 1\nprogram_ns = 1200\nhit_ns = 5500\nserve_ns = 90000\n")
    made = json_of("answer", *SMALL, "--rate", "1e9", "--hosts", hosts)
    sides, stored = made["sides"], made["cluster"]["hosts"]
    lower = min(sides["baseline"]["capacity"], sides["offload"]["capacity"])
    assert sides["rate"] == pytest.approx(0.8 * lower)
    assert says(made["sentences"][0], "1,000,000,000", "steps/s")
    assert "80 % of that" in made["sentences"][0]
    assert says_in_one_line(made["sentences"][-1], "--hosts", "workers")
    assert stored["serve_ns"] == 90_000 and sides["baseline"]["at_capacity"]["servers"] > 0.8


def test_a_log_of_the_user_limits_the_size_of_the_hot_set(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    log = tmp_path / "log.parquet"
    rows = [
        {"iteration": step, "worker": worker, "key": key}
        for step in range(40)
        for worker in range(3)
        for key in chance.choice(600, 100, replace=False, p=_skewed(600)).tolist()
    ]
    pl.DataFrame(rows).write_parquet(log)
    made = json_of("answer", "--workers", 3, "--servers", 2, "--data", log)
    known = made["sizes"][-1]["top_k"]
    assert made["keys_per_step"] == 100 and known <= 600
    assert says(made["headline"], "switch", known)
    assert made["sizes"][-1]["served"] > 0.95
    assert says(made["sentences"], 100, log)
    assert says(made["sentences"][0], "capacity", "half")


def _skewed(size: int) -> Any:
    weights = 1 / np.arange(1, size + 1)
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--workers", "450", "--servers", "60"], "450 workers and 60 servers are 510 hosts, and the"),
        (["--workers", "450", "--servers", "60", "--racks", "450"], "450 racks of 450 workers: expected at"),
        (["--workers", "960", "--servers", "60", "--racks", "480"], "60 servers in 480 racks need 540 ports"),
        (["--workers", "4", "--servers", "2", "--top-k", "200000"], "a hot set of 200,000 keys is too"),
        (["--workers", "4", "--servers", "300"], "servers = 300: "),
        (["--workers", "4", "--servers", "2", "--data", "nowhere"], "nowhere: cannot be read: No such file"),
        (["--workers", "4", "--servers", "2", "--keys-per-step", "50000"], "50000 keys per step are too"),
        (["--workers", "4", "--servers", "2", "--hosts", "nowhere"], "nowhere: No such file"),
    ],
)  # fmt: skip
def test_an_impossible_cluster_is_an_error_of_one_line(options: list[str], complaint: str) -> None:
    result = invoke("answer", *options)
    assert result.exit_code == 1
    assert complaint in result.output and result.output.count("\n") == 1


# -- counting


def test_a_step_is_counted_as_it_is_packed() -> None:
    """Every mini-batch has a hot key for each lane, and 40 cold keys that no other mini-batch has."""
    hot = [next(key for key in range(1, 10_000) if lane_of(key) == lane) for lane in range(32)]
    batches = [[*hot, *range(20_000 + 40 * number, 20_040 + 40 * number)] for number in range(40)]
    counter = PackingCounter(SimulationConfig(workers=1, servers=1), scored_after(batches, 21))
    assert counter.keys_with_updates == 32 + 40 * 21
    # Times 2, for a pull and a push.
    assert counter.count(0) == PackingCounts(
        served=0, rpcs=2 * 3, server_packets=2 * 3, server_lanes=2 * 72, keys=2 * 72, values=2 * 72
    )
    assert counter.count(32) == PackingCounts(
        served=32 / 72, rpcs=2 * 3, server_packets=2 * 2, server_lanes=2 * 40, keys=2 * 72, values=2 * 72,
        memory=memory_of(32, 1),
    )  # fmt: skip


def scored_after(batches: Sequence[Sequence[int]], profile_steps: int) -> ScoredWorkload:
    """Return the workload of one worker, whose hot set is chosen from the first steps."""
    trace = replace(trace_of(batches), profile_steps=profile_steps)
    profiled = trace.position[: trace.key_start[profile_steps]]
    return ScoredWorkload(trace, np.bincount(profiled, minlength=trace.space.size))


def test_a_hot_set_is_counted_on_steps_that_it_is_not_chosen_from() -> None:
    batches = [[1, 2, 3]] * 20 + [[4, 5, 6]] * 20
    counter = PackingCounter(SimulationConfig(workers=1, servers=1), scored_after(batches, 20))
    assert counter.keys_with_updates == 3 and counter.count(3).served == 0


@pytest.mark.parametrize("batches", [10, 40, 79, 200])
def test_packed_steps_are_spread_over_all_scored_steps(batches: int) -> None:
    """Keys that are hot in the second half of the scored steps are in half of the packed steps, too."""
    half = batches // 2
    workload = scored_after([[1, 2], *[[1]] * half, *[[2]] * (batches - half)], 1)
    counts = PackingCounter(SimulationConfig(workers=1, servers=1), workload).count(1)
    assert counts.served == pytest.approx(half / batches)
    assert counts.server_packets / 2 == pytest.approx(1 - half / batches, abs=0.02)


def side(capacity: float, workers: float, servers: float) -> ArmResult:
    busy = Utilization(workers=workers, servers=servers)
    counts = {"rpcs_per_step": 1.0, "ps_packets_per_step": 1.0}
    return ArmResult(capacity=capacity, at_capacity=busy, at_rate=busy, **counts)


def test_capacity_follows_from_counts_and_costs() -> None:
    """1,000 steps/s keep 2 workers busy for 80 %: 1,600 µs a step, of which 100 RPCs take 6 µs each.

    4 servers are busy for 50 %: 2,000 µs, of which 3,000 lanes take 0.1 µs each, and 85 packets 20 µs each.
    """
    hosts = HostCosts(encode_ns=1_000, send_ns=4_000, receive_ns=1_000, lane_ns=100)
    config = SimulationConfig(workers=2, servers=4, hosts=hosts)
    none = PackingCounts(served=0, rpcs=100, server_packets=100, server_lanes=6_000, keys=6_000, values=6_000)
    counted = PackingCounts(
        served=0.5, rpcs=100, server_packets=85, server_lanes=3_000, keys=6_000, values=6_000
    )
    # Without offload: 2,600 µs a step of workers, of which RPCs take 600; servers' packets take 20 µs, too.
    model = CapacityModel(config, side(700, 0.91, 0.455), none, side(1_000, 0.8, 0.5), counted)
    same = model.size(500, counted)
    assert (same.worker_cpu_us, same.ps_cpu_us) == pytest.approx((1_600, 2_000))
    assert same.capacity == pytest.approx(1_000) and model.size(0, none).capacity == pytest.approx(700)
    other = model.size(
        900,
        PackingCounts(served=0.9, rpcs=50, server_packets=400, server_lanes=5_000, keys=6_000, values=6_000),
    )
    assert (other.worker_cpu_us, other.ps_cpu_us) == pytest.approx((1_300, 8_500))
    # The servers limit, and the ratio at the size that was simulated is 1,000 to 1,247 of its cores.
    assert other.capacity == pytest.approx(4e6 / 8_500 * 1_000 / 1_247, rel=0.001)
    between = model.size(100, counted._replace(served=0.25))
    assert between.worker_cpu_us == pytest.approx(2_100)
    model.calibrate(counted._replace(served=0.9), 2_000)
    assert model.size(900, counted._replace(served=0.9)).capacity == pytest.approx(2_000)


def test_servers_that_get_no_packets_have_costs_without_offload() -> None:
    """All keys of the size that was simulated are hot, so the costs of servers are those of the baseline."""
    config = SimulationConfig(workers=40, servers=2)
    none = PackingCounts(served=0, rpcs=12, server_packets=12, server_lanes=280, keys=280, values=280)
    every = PackingCounts(served=1, rpcs=17, server_packets=0, server_lanes=0, keys=280, values=280)
    model = CapacityModel(config, side(29_000, 0.3, 0.97), none, side(97_000, 0.96, 0.0), every)
    some = model.size(
        1_000, PackingCounts(served=0.6, rpcs=12, server_packets=6, server_lanes=140, keys=280, values=280)
    )
    assert some.ps_cpu_us == pytest.approx(2e6 * 0.97 / 29_000 / 2)
    assert some.capacity == pytest.approx(2 * 29_000, rel=0.05)
    assert model.size(20_000, every).capacity == pytest.approx(97_000)


def test_uplinks_limit_what_the_racks_carry() -> None:
    """A step sends 100 RPCs of 42 + 56 + 24 bytes and 500 lanes each of 8 and 12 bytes: 22,200 bytes.

    Two uplinks of 100 Mbit/s carry that 1,126 times a second, and the cores much more.
    """
    network = {"rack": 2, "uplink_mbit": 100}
    config = SimulationConfig.model_validate({"workers": 4, "servers": 4, "network": network})
    none = PackingCounts(served=0, rpcs=100, server_packets=100, server_lanes=1_000, keys=1_000, values=1_000)
    most = none._replace(served=0.5, server_lanes=500, server_packets=50)
    carried = 200e6 / 8 / 22_200
    model = CapacityModel(config, side(carried / 2, 0.1, 0.99), none, side(0.6 * carried, 0.1, 0.99), most)
    # The servers limit both simulated sizes, and hardly do anything in a larger one.
    larger = model.size(100, most._replace(served=0.9, server_lanes=10, server_packets=1))
    assert larger.capacity == pytest.approx(carried, rel=0.02)


def sizes(capacities: dict[int, float]) -> list[Size]:
    rest = {"served": 0.5, "rpcs_per_step": 1, "ps_packets_per_step": 1, "worker_cpu_us": 1, "ps_cpu_us": 1}
    return [
        Size.model_validate({"top_k": top_k, "capacity": capacity, **rest})
        for top_k, capacity in capacities.items()
    ]


def test_a_larger_hot_set_stops_to_pay_where_the_best_adds_less_than_3_per_cent() -> None:
    assert (
        smallest_sufficient_size(sizes({1_000: 90, 2_000: 96, 5_000: 97.5, 10_000: 100, 20_000: 80})).top_k
        == 5_000
    )
    assert sizes_for(700, 12_000, 7_168) == [0, 700, 1_000, 2_000, 5_000, 7_168]
    assert sizes_for(700, 12_000, 114_688) == [0, 700, 1_000, 2_000, 5_000, 10_000]
    counted = [700, 1_000, 5_000, 10_000]
    simulated = [0, 5_000]
    assert [next_size_to_check(simulated, stops, counted) for stops in (1_000, 5_000)] == [1_000, 10_000]
    assert next_size_to_check([0, 10_000], 10_000, counted) == 5_000
    assert next_size_to_check([0, 700], 700, [700]) is None


# -- sentences


def sides(baseline: ArmResult, offload: ArmResult, rate: float, **found: Comparison) -> OffloadComparison:
    return OffloadComparison(
        top_k=20_000, rate=rate, rounds=6, baseline=baseline, offload=offload, differences=found
    )


@pytest.mark.parametrize(
    ("baseline", "offload", "how"),
    [(1_000, 1_500, ["1.50 times"]), (1_000, 1_020, []), (1_000, 700, ["0.70 times"])],
)
def test_the_headline_has_the_capacities(baseline: float, offload: float, how: list[str]) -> None:
    """The headline has both capacities, and their ratio if it is not about 1."""
    [size] = sizes({20_000: offload})
    text = headline(sides(side(baseline, 1, 1), side(offload, 1, 1), 500), size)
    assert quantities(text) == ["20,000 hot keys", *how, f"{offload:,} steps/s", f"{baseline:,}"]
    assert is_in_order(text, f"{baseline:,}", "without.")


@pytest.mark.parametrize("simulated", [None, 1_150.0])
def test_the_headline_has_the_best_size(simulated: float | None) -> None:
    """A smaller hot set than the requested one carries more; its simulated capacity is preferred."""
    comparison = sides(side(1_000, 1, 1), side(1_050, 1, 1), 500)
    [calculated] = sizes({1_000: 1_200})
    text = headline(comparison, calculated.model_copy(update={"simulated": simulated}))
    best = ["1.20 times", "1,200 steps/s"] if simulated is None else ["1.15 times", "1,150 steps/s"]
    assert quantities(text) == ["1,000 hot keys", *best, "1,000", "20,000 hot keys", "1.05 times"]


@pytest.mark.parametrize(
    ("rate", "baseline", "offload", "verdict", "numbers"),
    [
        (None, 1_000, 2_000, ["half", "without the hot set"], ["500 steps/s"]),
        (500, 1_000, 2_000, [], ["500 steps/s"]),
        (900, 1_000, 2_000, ["nearly full", "without the hot set"], ["900 steps/s", "1,000"]),
        (1_500, 1_000, 2_000, ["not carry", "without the hot set", "with it"], ["1,500 steps/s", "1,000"]),
        (1_500, 2_000, 1_000, ["not carry", " with the hot set", "without it"], ["1,500 steps/s", "1,000"]),
        (3_000, 1_000, 2_000, ["too many", "with the hot set or without"], ["3,000 steps/s", "1,000"]),
    ],
)  # fmt: skip
def test_sentences_have_the_offered_rate_and_the_capacities(
    rate: float | None, baseline: float, offload: float, verdict: list[str], numbers: list[str]
) -> None:
    """They have the requested rate; if it is too high, the capacity and the rate used instead."""
    cluster = Cluster(workers=4, servers=2, rate=rate)
    found = sides(side(baseline, 0.9, 0.95), side(offload, 0.5, 0.4), 500)
    [none, size] = sizes({0: baseline, 20_000: offload})
    offer, *rest = sentences(cluster, config_for(cluster), 3_000, found, [none, size], size, ())
    instead = ["500 steps/s", "50 %"] if len(numbers) > 1 else []
    assert is_in_order(offer, *verdict) and quantities(offer) == [
        *numbers,
        *instead,
        "20,000 keys",
        "6 rounds",
        "95 %",
    ]
    [without_it] = [each for each in rest if each.startswith("Without")]
    [with_it] = [each for each in rest if each.startswith("With it")]
    carried = [[f"{capacity:,} steps/s", *shares] for capacity, shares in (
        (baseline, ["95 %", "90 %"]), (offload, ["40 %", "50 %"]))]  # fmt: skip
    assert [quantities(each)[2:] for each in (without_it, with_it)] == carried
    assert "cores of both" in without_it and "no core is" in with_it


def test_gains_and_losses_are_grouped_by_servers_workers_and_operations() -> None:
    found = sides(
        side(1, 1, 1), side(1, 1, 1), 1,
        ps_packets_per_step=of_ratio(-0.43, -0.45, -0.42),
        ps_cpu_us_per_step=of_ratio(0.2, 0.1, 0.3),
        rpcs_per_step=of_ratio(0.02, -0.1, 0.1),
        pull_mean=of_ratio(-0.2, -0.3, -0.1),
        push_p99=of_ratio(0.0, -0.1, 0.1),
    )  # fmt: skip
    servers, workers, operations = differences(found)
    assert is_in_order(
        servers, "servers gain and lose", "-43 % [-45, -42] packets", "+20 % [+10, +30] CPU a step"
    )
    assert is_in_order(workers, "workers show no significant change", "+2.0 % [-10, +10] RPCs")
    pulls, p99 = "-20 % [-30, -10] for pulls", "+0.0 % [-10, +10]"
    assert is_in_order(operations, "Operations complete sooner", pulls, p99, "p99", "push")


@pytest.mark.parametrize(
    ("capacities", "stops", "message"),
    [
        ({0: 100, 1_000: 90, 2_000: 80}, 1_000, ["No hot set", "2,000 keys"]),
        ({0: 100, 1_000: 150, 2_000: 200}, 2_000, ["larger hot set pays", "2,000 keys"]),
        ({0: 100, 1_000: 150, 2_000: 151}, 1_000, ["Beyond", "1,000 keys", "2,000 keys", "less than", "3 %"]),
    ],
)  # fmt: skip
def test_a_sentence_has_the_size_beyond_which_a_hot_set_stops_to_pay(
    capacities: dict[int, float], stops: int, message: list[str]
) -> None:
    cluster = Cluster(workers=4, servers=2)
    made = sizes(capacities)
    stop = next(size for size in made if size.top_k == stops)
    equal = sides(side(1, 1, 1), side(1, 1, 1), 1)
    checks = [CalculationCheck(1_000, 105, 100)]
    lines = list(sentences(cluster, config_for(cluster), 9, equal, made, stop, checks))
    assert any(is_in_order(line, *message) for line in lines)
    assert any(is_in_order(line, "105 steps/s with 1,000 keys, 100 simulated (+5 %)") for line in lines)
    assert not any("estimates" in line for line in lines)


@pytest.mark.parametrize(("calculated", "is_estimate"), [(89, True), (91, False), (109, False), (111, True)])
def test_calculated_capacities_are_called_estimates_if_the_last_check_fails(
    calculated: float, is_estimate: bool
) -> None:
    cluster, equal = Cluster(workers=4, servers=2), sides(side(1, 1, 1), side(1, 1, 1), 1)
    made = sizes({0: 1, 1_000: 1})
    checks = [CalculationCheck(1_000, 150, 100), CalculationCheck(2_000, calculated, 100)]
    text = " ".join(sentences(cluster, config_for(cluster), 9, equal, made, made[1], checks))
    assert ("are estimates" in text) is is_estimate and says(text, 100, "+50")


def test_workers_in_racks_share_uplinks() -> None:
    """900 workers and 100 servers are more hosts than the switch has ports."""
    config = config_for(Cluster(workers=900, servers=100, racks=40, oversubscription=4))
    assert (config.network.rack, config.network.uplink_mbit) == (23, 23 * 10_000 / 4)
    assert config.network.switch_us == 1 and config_for(Cluster(workers=9, servers=1)).network.rack is None


def test_full_uplinks_take_the_gain_away() -> None:
    """The hot set is behind the uplinks, which carry some more RPCs with it than without (design.md)."""
    wide, narrow = (
        Cluster(workers=16, servers=1, racks=2, keys_per_step=300, oversubscription=each) for each in (1, 400)
    )
    (wide_baseline, wide_offload), (baseline, offload) = map(capacities_of, (wide, narrow))
    assert wide_offload > 1.5 * wide_baseline
    assert offload / baseline == pytest.approx(0.9, abs=0.03)
    assert baseline < 0.8 * wide_baseline
    made, equal = sizes({0: 1, 20_000: 1}), sides(side(1, 1, 1), side(1, 1, 1), 1)
    said = sentences(narrow, config_for(narrow), 300, equal, made, made[1], ())
    [message] = [sentence for sentence in said if says(sentence, 2, "Workers")]
    assert "up to 8" in message and "0.2 Gbit/s" in message


def test_oversubscription_needs_racks() -> None:
    result = invoke("answer", "--workers", 4, "--servers", 2, "--oversubscription", 4)
    assert result.exit_code == 2 and says(result.output, "--oversubscription", 4, "--racks")


def test_agents_have_own_cores_and_the_switch_is_a_device() -> None:
    hosts = HostCosts(worker_cores=1, server_cores=1, program_ns=1_200, hit_ns=5_500, begin_ns=77)
    config = config_for(Cluster(workers=8, servers=4, rate=10, hosts=hosts))
    assert config.hosts == HostCosts(begin_ns=77)
    assert (config.network.switch_us, config.network.switch_mpps) == (1, 1_000)
    assert config.arms == ("baseline", "offload")
    assert (config.loads, config.rate, config.max_load) == ((1,), 10, 0.8)


@pytest.mark.parametrize(
    ("switch", "mpps", "lanes", "message"),
    [
        ("ideal", 1_000, 32, "a device that takes 1 µs for a frame and 1,000 million"),
        ("tofino", 649.4, 16, "a pipe of a Tofino that takes 1 µs for a frame and 649 million"),
        ("tofino2", 1_298.7, 16, "a pipe of a Tofino 2 that takes 1 µs for a frame and 1,299 million"),
    ],
)
def test_a_chip_has_its_own_limits(switch: DeviceName, mpps: float, lanes: int, message: str) -> None:
    """A push of 16 lanes and the gap after it have 308 bytes."""
    config = config_for(Cluster(workers=8, servers=4, switch=switch))
    assert (config.network.switch_us, config.network.switch_mpps) == (1, mpps)
    assert config.network.switch_lanes == lanes
    assert message in device(config, DEVICES[switch])


def test_with_a_chip_only_rpcs_of_the_hot_set_have_16_lanes(found: Any) -> None:
    """So a chip takes more RPCs than the ideal switch does, and the baseline is the same."""
    chip, ideal = json_of("answer", *SMALL, "--rate", 2000, "--switch", "tofino"), found
    baselines = chip["sides"]["baseline"], ideal["sides"]["baseline"]
    assert baselines[0]["rpcs_per_step"] == pytest.approx(baselines[1]["rpcs_per_step"], rel=0.01)
    assert baselines[0]["capacity"] == pytest.approx(baselines[1]["capacity"], rel=0.01)
    simulated = chip["sides"]["offload"]["rpcs_per_step"]
    assert simulated > 1.6 * ideal["sides"]["offload"]["rpcs_per_step"]
    calculated = {each["top_k"]: each["rpcs_per_step"] for each in chip["sizes"]}
    assert calculated[3_000] == pytest.approx(simulated, rel=0.03)
    assert calculated[0] == pytest.approx(baselines[0]["rpcs_per_step"], rel=0.03)
    assert is_in_order(" ".join(chip["sentences"]), "RPCs have up to 16 keys, and without it 32")


CHIPS: dict[DeviceName, str] = {"ideal": "ideal", "tofino": "Tofino 1"}
"""Device -> its name in the published table of S1 in racks."""


def published_numbers(switch: str, hot_keys: str) -> list[float]:
    """Return RPCs and packets of a step, and steps/s."""
    table = published_table("tofino-gain")
    columns = ("RPCs a step", "packets to servers a step", "steps/s")
    cells = (table.cell(f"{switch}, {hot_keys}", column) for column in columns)
    return [cell for cell in cells if isinstance(cell, float)]


@pytest.fixture(scope="module")
def workload_of_s1() -> ScoredWorkload:
    """Return the mini-batches of S1, which are the same with any switch."""
    return workload_for(config_for(Cluster(workers=80, servers=20, racks=8)), None, quiet_reporter())


@pytest.mark.parametrize(
    "switch",
    # `test_with_a_chip_only_rpcs_of_the_hot_set_have_16_lanes` simulates a smaller cluster with a chip.
    ["ideal", pytest.param("tofino", marks=pytest.mark.soak)],
)
def test_the_table_of_chips_is_what_is_simulated(switch: DeviceName, workload_of_s1: ScoredWorkload) -> None:
    """Steps/s are simulated without a hot set and with one of 20,000 keys."""
    config = config_for(Cluster(workers=80, servers=20, racks=8, switch=switch))
    found = capacities(config, workload_of_s1, 20_000, quiet_reporter())
    expected = published_numbers("none", "0")[2], published_numbers(CHIPS[switch], "20,000")[2]
    assert found == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("switch", CHIPS)
def test_the_table_of_chips_is_what_is_counted(switch: DeviceName, workload_of_s1: ScoredWorkload) -> None:
    config = config_for(Cluster(workers=80, servers=20, racks=8, switch=switch))
    counter = PackingCounter(config, workload_of_s1)
    expected = {0: published_numbers("none", "0"), 20_000: published_numbers(CHIPS[switch], "20,000")}
    for top_k, (rpcs, packets, _) in expected.items():
        counts = counter.count(top_k)
        assert (counts.rpcs, counts.server_packets) == pytest.approx((rpcs, packets), rel=0.01)


@pytest.mark.soak
@pytest.mark.parametrize("switch", CHIPS)
def test_the_table_of_chips_is_what_answer_says(switch: DeviceName) -> None:
    sides = answer(workers=80, servers=20, racks=8, switch=switch).sides
    found = sides.offload.rpcs_per_step, sides.offload.ps_packets_per_step, sides.offload.capacity
    assert found == pytest.approx(published_numbers(CHIPS[switch], "20,000"))


@pytest.mark.parametrize(
    ("largest", "too_large", "message"),
    [
        ({"top_k": 57_344}, {"top_k": 57_345}, r"57,345 keys .* hold 57,344"),
        ({"workers": 44, "servers": 20}, {"workers": 45, "servers": 20}, r"65 hosts, .* has 64 ports"),
        # An uplink of 100 Gbit/s takes 4 ports of 25.
        (
            {"workers": 110, "servers": 20, "racks": 11},
            {"workers": 120, "servers": 20, "racks": 12},
            "68 ports",
        ),
        (
            {"workers": 1_003, "servers": 20, "racks": 20, "oversubscription": 20},
            {"workers": 1_004, "servers": 20, "racks": 20, "oversubscription": 20},
            r"1,025\s+callers; expected at most 1,024",
        ),
    ],
)
def test_a_chip_refuses_what_it_does_not_hold(
    largest: dict[str, Any], too_large: dict[str, Any], message: str
) -> None:
    cluster = {"workers": 8, "servers": 4, "switch": "tofino"}
    part = Part(10, 2, 0.01) if "racks" in largest else None
    config_for(Cluster.model_validate(cluster | largest), part)
    with pytest.raises(SimulationError, match=message):
        config_for(Cluster.model_validate(cluster | too_large), part)


def test_a_chip_has_no_program_for_optimisers() -> None:
    cluster = Cluster(workers=8, servers=4, switch="tofino2", optimiser=parse_optimiser("sgd(lr=0.1)"))
    with pytest.raises(SimulationError, match=mentions("tofino2", "optimiser")):
        config_for(cluster)


def test_servers_that_optimise_collect_from_the_switch() -> None:
    # At a low rate the simulated time is long enough for copies to be replaced.
    found = json_of("answer", *SMALL, "--rate", "400", "--optimiser", "adagrad(lr=0.1)")
    packets = found["sides"]["differences"]["ps_packets_per_step"]
    assert packets["ratio"] < -0.1 and found["sides"]["offload"]["capacity"] > 0
    assert 0 < found["ages"]["p50_ms"] <= found["ages"]["p99_ms"] and found["ages"]["bound_ms"] == 50
    [said] = [each for each in found["sentences"] if "adagrad(lr=0.1" in each]
    assert is_in_order(said, "20 %", "every 50 ms", f"{found['ages']['p50_ms']:.3g} ms", "99 %")


def test_optimisers_need_the_whole_cluster_and_a_known_name() -> None:
    many = ("--workers", "4000", "--servers", "20", "--racks", "100")
    result = invoke("answer", *many, "--optimiser", "adagrad")
    assert result.exit_code == 1 and is_in_order(result.output, "with an optimiser, got 4,000")
    result = invoke("answer", *SMALL, "--optimiser", "adamax")
    assert result.exit_code == 1 and "adamax" in result.output and len(result.output.splitlines()) == 1
