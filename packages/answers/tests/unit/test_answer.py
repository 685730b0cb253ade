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
from foundation.logs.time_split import training_length
from foundation.optimisers import parse as parse_optimiser
from foundation.protocol.hashing import lane_of
from foundation.protocol.memory import memory_of
from hotline_answers.cluster_answer.arm_results import ArmResult, OffloadComparison, Utilization
from hotline_answers.cluster_answer.ask import capacities
from hotline_answers.cluster_answer.cluster import Cluster, Part, config_for
from hotline_answers.cluster_answer.hotset import ScoredWorkload, workload_for
from hotline_answers.cluster_answer.sentences import device, differences, headline, sentences
from hotline_answers.cluster_answer.sizes import (
    ComparedSizes,
    PackingCounter,
    PackingCounts,
    Size,
    size_of,
    sizes_for,
)
from hotline_answers.cluster_answer.uplinks import uplink_gains
from hotline_answers.result import answer
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.costs import HostCosts
from hotline_simulator.devices import DEVICES, SOFTSWITCH_FRAME_US, DeviceName
from hotline_simulator.experiment import quiet_reporter
from packages.answers.tests.harness.capacities import capacities_of
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


def test_both_sides_are_simulated_at_the_requested_rate(found: Any) -> None:
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


def test_counted_rpcs_packets_and_capacities_agree_with_the_simulation(found: Any) -> None:
    """RPCs and packets agree at the requested size of the hot set, and capacities are those of the arms."""
    asked = next(size for size in found["sizes"] if size["top_k"] == 3000)
    none = found["sizes"][0]
    for size, side in ((none, found["sides"]["baseline"]), (asked, found["sides"]["offload"])):
        assert size["rpcs_per_step"] == pytest.approx(side["rpcs_per_step"], rel=0.03)
        assert size["ps_packets_per_step"] == pytest.approx(side["ps_packets_per_step"], rel=0.03)
        assert size["capacity"] == side["capacity"]
    hot = {size["top_k"]: size["capacity"] for size in found["sizes"][1:]}
    assert hot[found["best"]] == max(hot.values())
    assert found["stops_at"] in hot


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


@pytest.mark.usefixtures("no_input_effects")
@pytest.mark.parametrize("asked", [10, 50, 51, 500])
def test_a_larger_hot_set_than_the_log_has_keys_is_noted(tmp_path: Path, asked: int) -> None:
    """The first half of the log has 50 keys, and the second half 100."""
    rows = [{"iteration": step, "worker": 1, "key": key} for step in range(12) for key in _keys_of(step)]
    pl.DataFrame(rows).write_parquet(tmp_path / "log")
    cluster = ("--workers", 2, "--servers", 1, "--dim", 1, "--data", tmp_path / "log")
    made = json_of("answer", *cluster, "--top-k", asked)
    notes = [note for note in made["notes"] if says(note, "--top-k")]
    assert [says_in_one_line(note, 50, asked) for note in notes] == [True] * (asked > 50)
    curve = invoke("hotset", "curve", tmp_path / "log", "--top-k", asked).stderr.splitlines()
    assert [line for line in curve if says(line, "--top-k")] == notes


def _keys_of(step: int) -> range:
    return range(50) if step < 6 else range(100)


@pytest.mark.parametrize("steps", [40, 41, 42, 43])
def test_mini_batches_of_no_worker_are_noted_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, steps: int
) -> None:
    """Of the scored half of a log, which three workers replay."""
    rows = [{"iteration": step, "worker": 1, "key": key} for step in range(steps) for key in range(30)]
    pl.DataFrame(rows).write_parquet(tmp_path / "log")
    made = invoke("answer", "--workers", 3, "--servers", 2, "--data", tmp_path / "log")
    remaining = (steps - training_length(steps)) % 3
    notes = [line for line in [*made.stderr.splitlines(), *caplog.messages] if "mini-batch" in line]
    left_out = [line for line in notes if says(line, tmp_path / "log", remaining)]
    assert len(left_out) == (remaining > 0)
    assert caplog.messages == []


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


def test_the_rpcs_of_a_step_are_counted_by_packing_its_keys() -> None:
    """Every mini-batch has a hot key for each lane, and 40 cold keys that no other mini-batch has."""
    hot = [next(key for key in range(1, 10_000) if lane_of(key) == lane) for lane in range(32)]
    batches = [[*hot, *range(20_000 + 40 * number, 20_040 + 40 * number)] for number in range(40)]
    counter = PackingCounter(SimulationConfig(workers=1, servers=1), scored_after(batches, 21))
    assert counter.keys_with_updates == 32 + 40 * 21
    # Times 2, for a pull and a push.
    assert counter.count(0) == PackingCounts(
        served=0, rpcs=2 * 3, server_packets=2 * 3, keys=2 * 72, values=2 * 72
    )
    assert counter.count(32) == PackingCounts(
        served=32 / 72, rpcs=2 * 3, server_packets=2 * 2, keys=2 * 72, values=2 * 72,
        memory=memory_of(32, 1),
    )  # fmt: skip


def scored_after(batches: Sequence[Sequence[int]], profile_steps: int) -> ScoredWorkload:
    """Return the workload of one worker, whose hot set is chosen from the first steps."""
    trace = replace(trace_of(batches), profile_steps=profile_steps)
    profiled = trace.position[: trace.key_start[profile_steps]]
    return ScoredWorkload(trace, np.bincount(profiled, minlength=trace.space.size))


def test_a_hot_set_is_counted_on_other_steps_than_the_steps_that_chose_the_keys() -> None:
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


def test_the_cpu_of_a_size_follows_from_how_busy_the_cores_are() -> None:
    """1,000 steps/s keep 2 workers busy for 80 %, 1,600 µs a step, and 4 servers for 50 %."""
    counted = PackingCounts(served=0.5, rpcs=100, server_packets=85, keys=6_000, values=6_000)
    result = side(1_000, 0.8, 0.5)
    whole = size_of(SimulationConfig(workers=2, servers=4), 500, counted, result)
    assert (whole.worker_cpu_us, whole.ps_cpu_us) == pytest.approx((1_600, 2_000))
    # A quarter of the workers was simulated.
    part = SimulationConfig(workers=2, servers=4, hosts=HostCosts(server_share=0.25))
    of_part = size_of(part, 500, counted, result)
    assert (of_part.worker_cpu_us, of_part.ps_cpu_us) == pytest.approx((6_400, 2_000))


def test_uplinks_limit_the_steps_that_racks_carry() -> None:
    """A step sends 100 RPCs of 42 + 56 + 24 bytes and 500 lanes each of 8 and 12 bytes: 22,200 bytes.

    Two uplinks of 100 Mbit/s carry that 1,126 times a second, and the cores much more.
    """
    network = {"rack": 2, "uplink_mbit": 100}
    config = SimulationConfig.model_validate({"workers": 4, "servers": 4, "network": network})
    none = PackingCounts(served=0, rpcs=100, server_packets=100, keys=1_000, values=1_000)
    most = none._replace(served=0.5, server_packets=50)
    carried = 200e6 / 8 / 22_200
    simulated = side(carried / 4, 0.1, 0.99), side(carried / 2, 0.1, 0.99)
    cluster = Cluster(workers=4, servers=4, racks=2)
    by_ratio = {
        each.oversubscription: each
        for each in uplink_gains(cluster, config, sides(*simulated, 500), none, most)
    }
    assert by_ratio[1].gain == pytest.approx(2)
    assert by_ratio[64].baseline == pytest.approx(carried / 64, rel=0.02)
    assert by_ratio[64].gain == pytest.approx(1, abs=0.02)


def sizes(capacities: dict[int, float], asked: int = 20_000) -> ComparedSizes:
    rest = {"served": 0.5, "rpcs_per_step": 1, "ps_packets_per_step": 1, "worker_cpu_us": 1, "ps_cpu_us": 1}
    none, *hot = (
        Size.model_validate({"top_k": top_k, "capacity": capacity, **rest})
        for top_k, capacity in {0: 100, **capacities}.items()
    )
    return ComparedSizes(none=none, hot=tuple(hot), asked=asked)


def test_a_larger_hot_set_stops_to_pay_where_the_best_adds_less_than_3_per_cent() -> None:
    made = sizes({1_000: 190, 2_000: 196, 5_000: 197.5, 10_000: 202, 20_000: 180})
    assert (made.best.top_k, made.sufficient.top_k, made.recommended.top_k) == (10_000, 2_000, 2_000)
    equal = sizes({1_000: 90, 20_000: 101})
    assert equal.recommended.top_k == 20_000


def test_sizes_below_and_above_the_requested_one_are_compared() -> None:
    assert sizes_for(700, 12_000, 7_168) == [50, 100, 200, 500, 700, 1_000, 2_000, 5_000, 7_168]
    assert sizes_for(700, 12_000, 114_688)[-3:] == [5_000, 10_000, 12_000]
    assert sizes_for(689, 689, 114_688) == [5, 10, 20, 50, 100, 200, 500, 689]
    assert sizes_for(1, 1, 114_688) == [1]


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
    size = sizes({20_000: offload})[20_000]
    text = headline(sides(side(baseline, 1, 1), side(offload, 1, 1), 500), size)
    assert quantities(text) == ["20,000 hot keys", *how, f"{offload:,} steps/s", f"{baseline:,}"]
    assert is_in_order(text, f"{baseline:,}", "without.")


def test_the_headline_has_the_recommended_size() -> None:
    """A smaller hot set than the requested one carries more."""
    comparison = sides(side(1_000, 1, 1), side(1_050, 1, 1), 500)
    text = headline(comparison, sizes({1_000: 1_200})[1_000])
    assert quantities(text) == [
        "1,000 hot keys", "1.20 times", "1,200 steps/s", "1,000", "20,000 hot keys", "1.05 times",
    ]  # fmt: skip


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
    compared = sizes({0: baseline, 20_000: offload})
    offer, *rest = sentences(cluster, config_for(cluster), 3_000, found, compared)
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
    ("capacities", "asked", "messages"),
    [
        ({1_000: 90, 2_000: 80}, 2_000, [["2 sizes", "1,000", "2,000 keys", "none", "3 %"]]),
        ({1_000: 80}, 1_000, [["1 size", "none", "3 %"]]),
        # Nothing is said of sizes between the two or beyond them.
        ({1_000: 150, 2_000: 200}, 2_000, [["2 sizes", "2,000 keys carry most", "33 % more than 1,000"]]),
        ({2_000: 200}, 2_000, [["1 size", "2,000 keys carry most: 200 steps/s"]]),
        (
            {1_000: 150, 2_000: 151}, 2_000,
            [["2,000 keys carry most: 151"], ["Beyond", "1,000 keys", "2,000 keys", "less than", "3 %"]],
        ),
        (
            {100: 200, 500: 190, 689: 180}, 689,
            [
                ["3 sizes", "100 to 689 keys, 100 keys carry most: 200"], ["Beyond", "100 keys", "689 keys"],
                ["100 keys carry 11 % more than the 689 asked for"],
            ],
        ),
    ],
)  # fmt: skip
def test_sentences_on_sizes_name_the_simulated_sizes_and_gains(
    capacities: dict[int, float], asked: int, messages: list[list[str]]
) -> None:
    cluster, equal = Cluster(workers=4, servers=2), sides(side(1, 1, 1), side(1, 1, 1), 1)
    lines = list(sentences(cluster, config_for(cluster), 9, equal, sizes(capacities, asked)))
    found = [line for line in lines if re.search("carry|larger hot set", line)]
    assert len(found) == len(messages)
    for line, message in zip(found, messages, strict=True):
        assert is_in_order(line, *message)


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
    made, equal = sizes({20_000: 1}), sides(side(1, 1, 1), side(1, 1, 1), 1)
    said = sentences(narrow, config_for(narrow), 300, equal, made)
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
        (
            "softswitch",
            0.527,
            32,
            "a machine with softswitch on one core that takes 46.6 µs for a frame and 0.527",
        ),
        ("ideal", 1_000, 32, "a device that takes 1 µs for a frame and 1,000 million"),
        ("tofino", 649.4, 16, "a pipe of a Tofino that takes 1 µs for a frame and 649 million"),
        ("tofino2", 1_298.7, 16, "a pipe of a Tofino 2 that takes 1 µs for a frame and 1,299 million"),
    ],
)
def test_a_chip_has_its_own_limits(switch: DeviceName, mpps: float, lanes: int, message: str) -> None:
    """A push of 16 lanes and the gap after it have 308 bytes."""
    config = config_for(Cluster(workers=8, servers=4, switch=switch))
    frame_us = SOFTSWITCH_FRAME_US if switch == "softswitch" else 1
    assert (config.network.switch_us, config.network.switch_mpps) == (frame_us, mpps)
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
def test_the_published_capacities_of_chips_equal_the_simulated_capacities(
    switch: DeviceName, workload_of_s1: ScoredWorkload
) -> None:
    """Steps/s are simulated without a hot set and with one of 20,000 keys."""
    config = config_for(Cluster(workers=80, servers=20, racks=8, switch=switch))
    found = capacities(config, workload_of_s1, 20_000, quiet_reporter())
    expected = published_numbers("none", "0")[2], published_numbers(CHIPS[switch], "20,000")[2]
    assert found == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("switch", CHIPS)
def test_the_published_rpcs_and_packets_of_chips_equal_the_counted_numbers(
    switch: DeviceName, workload_of_s1: ScoredWorkload
) -> None:
    config = config_for(Cluster(workers=80, servers=20, racks=8, switch=switch))
    counter = PackingCounter(config, workload_of_s1)
    expected = {0: published_numbers("none", "0"), 20_000: published_numbers(CHIPS[switch], "20,000")}
    for top_k, (rpcs, packets, _) in expected.items():
        counts = counter.count(top_k)
        assert (counts.rpcs, counts.server_packets) == pytest.approx((rpcs, packets), rel=0.01)


@pytest.mark.soak
@pytest.mark.parametrize("switch", CHIPS)
def test_the_published_table_of_chips_equals_the_output_of_hotline_answer(switch: DeviceName) -> None:
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
def test_a_chip_refuses_more_keys_or_hosts_than_its_limits(
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
    assert result.exit_code == 1 and is_in_order(result.output, "got 4,000", "with an optimiser")
    result = invoke("answer", *SMALL, "--optimiser", "adamax")
    assert result.exit_code == 1 and "adamax" in result.output and len(result.output.splitlines()) == 1
