"""`summary.json` of the golden run: every metric against a number by hand.

Differences are of rounds. With rounds alike (x) but for one (y), their geometric mean is x^0.9 y^0.1. Of 10
rounds there are 1,023 subsets, and the interval leaves out 25 of 1,024 gaps between their means at each
end. Half of the subsets lack round 7, so the one end is x; at the other end are round 7 alone, 9 subsets in
which it is one of two, and 36 in which it is one of three: so it is x^(2/3) y^(1/3).

Quantiles of a round: its 25 measured steps, sorted, take longer by 0 µs (12 of them), 10 (11), 60 (1) and
310 (1): the 13th by 10, the 24th by 60, the 25th by 310; in round 7 of arm offload each by another 60. Those
of all rounds together are the 125th, 238th and 248th of 250: 120 times 0, 110 times 10, 10 times 60 and 10
times 310. With round 7's 60 µs in arm offload they are 0 (108), 10 (99), 60 (21), 70 (11), 120 (1), 310 (9),
370 (1): by 10, 70 and 310.
"""

from __future__ import annotations

import json
from math import exp, log, sqrt
from typing import Any

import pytest

from analysis.record import ProgramUse
from analysis.summary import summarise
from tests.unit.golden.run import GoldenRun, in_the_kernel


@pytest.fixture(scope="module")
def summary(golden: GoldenRun) -> dict[str, Any]:
    return dict(json.loads(golden.summary.model_dump_json()))


def about(number: float) -> object:
    return pytest.approx(number, rel=1e-6)


def distribution(mean: float, p50: float, p95: float, p99: float) -> dict[str, object]:
    return {"mean": about(mean), "p50": p50, "p95": p95, "p99": p99}


NOTHING = {"mean": None, "p50": None, "p95": None, "p99": None}


def test_the_summary_of_the_whole_run_equals_numbers_by_hand(summary: dict[str, Any]) -> None:
    assert {name: value for name, value in summary.items() if name not in ("arms", "loads", "learning")} == {
        "target": "softswitch",
        "offered_rate": {"0.5": 1234.5},
        "capacity": {
            "baseline": 200.0, "repeat": 196.0, "proxy": 201.0, "offload": 202.0, "offload-proxy": 203.0,
        },
        # 13 + 5 of the 72 keys that each push has.
        "hot_update_share": 0.25,
        # 18 of 144.
        "hot_part": 0.125,
        "updates": {
            "sent": 86_400, "applied": 86_393, "lost": 4, "unknown": 3, "mismatched_keys": 2,
            "collected": 80_000, "uncollected": 12, "combination": "add",
        },
        "registers": {},
        "worker_changes": [],
        "overflows": 5,
        "dropped_rows": 9,
        "staleness": None,
        **dict.fromkeys(("rpcs", "packet_passes", "virtual_s", "real_s", "loop_s", "virtual")),
        **dict.fromkeys(("rate", "durable", "program_share", "reports", "vector")),
        **{name: {} for name in ("restarts", "agents", "last_reported", "steps_per_s")},
        "changed_arms": [],
        "dims": [1],
        # Arms alike: 0.5, 0.5, 0.5, 0.52 and 0.51.
        "last_loss": about(0.506),
        "chance_loss": 0.69,
        "cpus": 2,
        "has_separate_cpus": False,
        "ended_by": "precision",
        "alpha": 0.05,
        "budget_s": 100.0,
        # From x to x^(2/3) y^(1/3), as below.
        "widest": {
            "load": "0.5",
            "arm": "offload",
            "metric": "pull_mean",
            "half_width": about(419.2 / 519.2 * ((479.2 / 419.2) ** (1 / 3) - 1) / 2),
            "goal": 0.03,
        },
        "repeated": {"offload": {"steal": 2, "lateness": 1}, "proxy": {"steal": 1}},
        "capacity_checks": [
            {"when": "middle", "capacity": {"baseline": 190.0, "repeat": 200.0, "offload": 192.0},
             "contention": {}},
            {"when": "end", "capacity": {"baseline": 160.0, "repeat": 190.0, "offload": 180.0},
             "contention": {}},
        ],
        "undisturbed_capacities": [
            {"baseline": 200.0, "repeat": 196.0, "proxy": 201.0, "offload": 202.0, "offload-proxy": 203.0},
            {"baseline": 190.0, "repeat": 200.0, "offload": 192.0},
            {"baseline": 160.0, "repeat": 190.0, "offload": 180.0},
        ],
        # 100, 101, ... 199 and 1,210: (14,950 + 1,210) / 101 on average; the 51st, 96th and 100th of 101.
        "empty_rpc_latency_us": distribution(160, 150, 195, 199),
    }  # fmt: skip
    load = summary["loads"]["0.5"]
    assert set(summary["loads"]) == {"0.5"}
    assert (load["offered_rate"], load["rounds"], load["rounds_fallen_behind"]) == (1234.5, 10, 2)
    assert load["arms"] == summary["arms"]
    assert (load["block_steps"], load["blocks_repeated"], load["blocks_disturbed"]) == (25, 3, 1)
    # One block of twenty stayed disturbed.
    assert load["invalidated_by"] == {}


def test_the_numbers_of_the_baseline_equal_numbers_by_hand(summary: dict[str, Any]) -> None:
    assert summary["arms"]["baseline"] == {
        "steps": 300,
        "rpcs_per_step": 6.0,
        "op_latency_us": {
            "pull": distribution(500 + 19.2, 510, 560, 810),
            "push": distribution(700 + 19.2, 710, 760, 1010),
        },
        "rpc_latency_us": distribution(200 + 19.2, 210, 260, 510),
        "rpc_latency_by_class_us": {
            "all_hit": NOTHING, "mixed": NOTHING, "cold": distribution(200 + 19.2, 210, 260, 510),
        },
        "rpcs_per_step_by_class": {"all_hit": 0.0, "mixed": 0.0, "cold": 6.0},
        "metrics_us": {
            "w_proc": 3.0, "w_queue": 6.0, "ps_proc": 40.0, "ps_queue": 20.0, "n_tx": about(131 + 19.2),
            "switch": 8.0,
        },
        # Six RPCs of 40 µs; 2.7 ms over 30 steps.
        "ps_proc_us_per_step": {"wall": 240.0, "cpu": 90.0},
        "ps_packets_per_step": 6.0,
        # Headers of 56 B, 8 B a key and 4 B a value: six RPCs, 72 keys pulled and 72 pushed.
        "ps_bytes_per_step": 6 * 56 + 72 * 8 + 72 * 12,
        "ps_cpu_s": about(10 * 0.012),
        "durability": None,
        "step_us": about(5700 + 19.2),
        "step_latency_us": distribution(5700 + 19.2, 5710, 5760, 6010),
        "loss": about(0.5),
    }  # fmt: skip


def test_the_numbers_of_the_offload_arm_equal_numbers_by_hand(summary: dict[str, Any]) -> None:
    """Three RPCs of an operation are all-hit (70 µs), two cold (200) and one mixed (290): 150 on average."""
    extra = 19.2 + 60 / 10
    assert summary["arms"]["offload"] == {
        "steps": 300,
        "rpcs_per_step": 12.0,
        "op_latency_us": {
            "pull": distribution(400 + extra, 410, 470, 710),
            "push": distribution(450 + extra, 460, 520, 760),
        },
        # 3,000 RPCs. 1,440 take less than 200 µs, all-hit ones, and 432 take 200, cold ones: so the 1,501st.
        # From the top: mixed 660 (2), 600 (18); cold 570 (4), 510 (36): the 30th. All-hit 440 (6), mixed 410
        # (2), all-hit 380 (54), mixed 360 (22), 350 (42): the 150th.
        "rpc_latency_us": distribution(150 + extra, 200, 350, 510),
        "rpc_latency_by_class_us": {
            "all_hit": distribution(70 + extra, 80, 140, 380),
            "mixed": distribution(290 + extra, 300, 360, 600),
            "cold": distribution(200 + extra, 210, 270, 510),
        },
        "rpcs_per_step_by_class": {"all_hit": about(6), "mixed": about(2), "cold": about(4)},
        "metrics_us": {
            "w_proc": (3 * 2 + 2 * 3 + 6) / 6,
            "w_queue": (3 * 3 + 2 * 6 + 9) / 6,
            "ps_proc": (2 * 40 + 70) / 6,
            "ps_queue": (2 * 20 + 26) / 6,
            "n_tx": about((3 * 65 + 2 * 131 + 179) / 6 + extra),
            "switch": (3 * 4 + 2 * 8 + 14) / 6,
        },
        # Two operations of 70 + 40 + 40 µs, and in round 7 one RPC of 40 more.
        "ps_proc_us_per_step": {"wall": about(300 + 4), "cpu": about((9 * 70 + 110) / 10)},
        "ps_packets_per_step": about(6 + 0.1),
        # A mixed pull carries 32 values; round 7's copies have 56 + 3 * 12 bytes.
        "ps_bytes_per_step": about(6 * 56 + 67 * 8 + 32 * 4 + 67 * 12 + 9.2),
        "ps_cpu_s": about(9 * 0.009 + 0.0105),
        "durability": None,
        "step_us": about(5450 + extra),
        "step_latency_us": distribution(5450 + extra, 5460, 5520, 5760),
        "loss": about(0.53),
    }


def compared(baseline: float, typical: float, special: float) -> dict[str, object]:
    """Return a difference to a baseline whose rounds are alike, as the rounds of the arm are but for one."""
    value = typical**0.9 * special**0.1
    low, high = sorted((typical, typical ** (2 / 3) * special ** (1 / 3)))
    numbers = {"reference": baseline, "value": value, "difference": value - baseline}
    numbers |= {"low": low - baseline, "high": high - baseline}
    numbers |= {"ratio": value / baseline - 1}
    numbers |= {"ratio_low": low / baseline - 1, "ratio_high": high / baseline - 1}
    return {name: pytest.approx(number, rel=1e-6, abs=1e-6) for name, number in numbers.items()}


def test_the_loss_is_of_the_run_and_its_interval_of_arms_that_train_alike(summary: dict[str, Any]) -> None:
    """Arms without offload are at 0.5; offload at 0.52, but for one round, and offload-proxy at 0.51."""
    hot, both = 0.9 * log(0.52) + 0.1 * log(0.62) - log(0.5), log(0.51) - log(0.5)
    # Half the squared difference of two is their sum of squares; Student's t of 2 and 3 degrees of freedom.
    squares = (hot - both) ** 2 / 2
    reaches = {2: 4.302653 * sqrt(2 * squares / 2), 3: 3.182446 * sqrt(2 * squares / 3)}
    shifts = (("repeat", 0.0, 2), ("proxy", 0.0, 2), ("offload", hot, 3), ("offload-proxy", both, 3))
    for arm, shift, freedom in shifts:
        found = summary["learning"][arm]
        assert found["ratio"] == pytest.approx(exp(shift) - 1, abs=1e-9)
        assert found["ratio_low"] == about(exp(shift - reaches[freedom]) - 1)
        assert found["ratio_high"] == about(exp(shift + reaches[freedom]) - 1)
        assert (found["reference"], found["value"]) == (about(0.5), about(0.5 * exp(shift)))


def test_differences_of_the_offload_arm_equal_numbers_by_hand(summary: dict[str, Any]) -> None:
    assert summary["loads"]["0.5"]["differences"]["offload"] == {
        "pull_mean": compared(519.2, 419.2, 479.2),
        "pull_p50": compared(510, 410, 470),
        "pull_p95": compared(560, 460, 520),
        "pull_p99": compared(810, 710, 770),
        "push_mean": compared(719.2, 469.2, 529.2),
        "push_p50": compared(710, 460, 520),
        "push_p95": compared(760, 510, 570),
        "push_p99": compared(1010, 760, 820),
        "step_mean": compared(5719.2, 5469.2, 5529.2),
        "step_p50": compared(5710, 5460, 5520),
        "step_p95": compared(5760, 5510, 5570),
        "step_p99": compared(6010, 5760, 5820),
        "rpcs_per_step": compared(6, 12, 12),
        "rpc_mean": compared(219.2, 169.2, 229.2),
        "ps_proc_cpu_us_per_step": compared(90, 70, 110),
        # 12 ms over 30 steps; 9 ms, in round 7 10.5 ms.
        "ps_cpu_us_per_step": compared(400, 300, 350),
        "ps_packets_per_step": compared(6, 6, 7),
        # A mixed pull carries 32 values; round 7's copies have 56 + 3 * 12 bytes.
        "ps_bytes_per_step": compared(1776, 1804, 1804 + 92),
        # 15 ms over 30 steps; 18 ms, in round 7 21 ms.
        "worker_cpu_us_per_step": compared(500, 600, 700),
        "agents_cpu_us_per_step": compared(900, 900, 1050),
    }


def test_differences_of_arms_with_equal_rounds_equal_numbers_by_hand(summary: dict[str, Any]) -> None:
    differences = summary["loads"]["0.5"]["differences"]
    assert set(differences) == {"repeat", "proxy", "offload", "offload-proxy"}
    again = dict.fromkeys(("pull_mean", "push_p99", "ps_packets_per_step"), 0)
    proxy = {"pull_mean": -10, "push_mean": 0, "rpc_mean": -8, "ps_proc_cpu_us_per_step": -2}
    proxy |= {"ps_cpu_us_per_step": -10, "ps_bytes_per_step": 0, "worker_cpu_us_per_step": 10}
    both = {"pull_mean": -110, "push_mean": -260, "rpc_mean": -50, "ps_proc_cpu_us_per_step": -30}
    both |= {"ps_cpu_us_per_step": -120, "ps_bytes_per_step": 28, "worker_cpu_us_per_step": 120}
    for arm, metrics in (("repeat", again), ("proxy", proxy), ("offload-proxy", both)):
        for metric, difference in metrics.items():
            found = differences[arm][metric]
            bounds = [found["difference"], found["low"], found["high"]]
            assert bounds == pytest.approx([difference] * len(bounds), abs=1e-6), (arm, metric)


def test_the_kernel_programs_time_is_subtracted_from_the_agents_cpu(golden: GoldenRun) -> None:
    """Loss over a block's 30 steps; round 7 of arm *offload* differs."""
    bare = golden.summary.loads["0.5"].differences
    summary = json.loads(in_the_kernel(golden).summary.model_dump_json())
    # Ten rounds: 30 + 30 + 30 + (9 * 4.8 + 6.6) + 60 ms of 150 + 150 + 153 + (9 * 18 + 21) + 186, and
    # 15 + 15 + 12 + (9 * 1.8 + 1.5) + 9 ms of 120 + 120 + 117 + (9 * 9 + 10.5) + 84.
    # All of the blocks last 600 ms.
    nowhere_else = {"on_workers": 0.0, "on_servers": 0.0, "apart": 0.0}
    assert summary["program_share"] == {
        "workers": about(199.8 / 822),
        "servers": about(68.7 / 532.5),
        "cores": {"workers": about(199.8 / 600), "servers": about(68.7 / 600), **nowhere_else},
    }
    differences = summary["loads"]["0.5"]["differences"]
    without = {
        # 12 - 1.5 ms; 9 - 1.8 and 10.5 - 1.5.
        "ps_cpu_without_switch_us_per_step": compared(350, 240, 300),
        # 15 - 3 ms; 18 - 4.8 and 21 - 6.6.
        "worker_cpu_without_switch_us_per_step": compared(400, 440, 480),
    }
    assert {name: differences["offload"][name] for name in without} == without
    # With it they are what they were.
    for arm, metrics in differences.items():
        with_it = {name: each for name, each in metrics.items() if name not in without}
        assert with_it == {name: each.model_dump() for name, each in bare[arm].items()}


def test_program_time_of_unknown_origin_is_not_subtracted(golden: GoldenRun) -> None:
    """On the servers' core, the program's time for workers' frames is part of any process's time."""
    record = in_the_kernel(golden).record
    moved = [
        block.model_copy(
            update={"program_s": ProgramUse(workers=0.0, servers=0.0015, on_servers=block.program_s.workers)}
        )
        for block in record.blocks
        if block.program_s is not None
    ]
    summary = summarise(golden.folder, record.model_copy(update={"blocks": moved}))
    assert summary.program_share is not None
    assert summary.program_share.workers == 0
    assert summary.program_share.cores.on_servers == about(199.8 / 600)
    differences = summary.loads["0.5"].differences["offload"]
    assert "ps_cpu_without_switch_us_per_step" not in differences
    # The switch takes all of the workers' CPU time.
    assert differences["worker_cpu_without_switch_us_per_step"] == differences["worker_cpu_us_per_step"]


def test_blocks_without_program_time_have_no_cpu_without_the_switch(golden: GoldenRun) -> None:
    record = in_the_kernel(golden).record
    record.blocks[-1] = record.blocks[-1].model_copy(update={"program_s": None})
    summary = summarise(golden.folder, record)
    assert summary.program_share is None
    assert set(summary.loads["0.5"].differences["offload"]) >= {"worker_cpu_without_switch_us_per_step"}
    assert "worker_cpu_without_switch_us_per_step" not in summary.loads["0.5"].differences["offload-proxy"]
