"""`summary.json` of the golden run: every metric against a number by hand.

With rounds alike but for one, a mean over the 10 rounds is x + d/10, where d is what round 7 adds. A resample
has round 7 k times, and k is 0 in 35 % of them, 4 or more in 1.28 % and 5 or more in 0.16 %. The interval
leaves out 0.86 % at each end (Student's t of 9 degrees, 2.262, times the root of 10/9, is 2.384 deviations):
it goes from k = 0 to k = 4, so from x to x + 4d/10.

Quantiles: the 250 measured steps of an arm, sorted, take longer by 0 µs (120 of them), 10 (110), 60 (10) and
310 (10): the 125th by 10, the 238th by 60, the 248th by 310. With round 7's 60 µs in arm hot it is 0 (108),
10 (99), 60 (21), 70 (11), 120 (1), 310 (9), 370 (1): by 10, 70 and 310.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.golden.run import GoldenRun


@pytest.fixture(scope="module")
def summary(golden: GoldenRun) -> dict[str, Any]:
    return dict(json.loads(golden.summary.model_dump_json()))


def about(number: float) -> object:
    return pytest.approx(number, rel=1e-6)


def distribution(mean: float, p50: float, p95: float, p99: float) -> dict[str, object]:
    return {"mean": about(mean), "p50": p50, "p95": p95, "p99": p99}


NOTHING = {"mean": None, "p50": None, "p95": None, "p99": None}


def test_the_run_as_a_whole(summary: dict[str, Any]) -> None:
    assert {name: value for name, value in summary.items() if name not in ("arms", "loads")} == {
        "target": "softswitch",
        "offered_rate": {"0.5": 1234.5},
        "capacity": {"neither": 200.0, "again": 199.0, "proxy": 201.0, "hot": 202.0, "both": 203.0},
        # 13 + 5 of the 72 keys that each push has.
        "hot_update_share": 0.25,
        "updates": {"sent": 86_400, "applied": 86_393, "lost": 4, "unknown": 3, "mismatched_keys": 2},
        "overflows": 5,
        "changed_arms": [],
        # Arms alike: 0.5, 0.5, 0.5, 0.52 and 0.51.
        "last_loss": about(0.506),
        "chance_loss": 0.69,
        # 100, 101, ... 199 and 1,210: (14,950 + 1,210) / 101 on average; the 51st, 96th and 100th of 101.
        "empty_rpc_latency_us": distribution(160, 150, 195, 199),
    }
    load = summary["loads"]["0.5"]
    assert set(summary["loads"]) == {"0.5"}
    assert (load["offered_rate"], load["rounds"], load["rounds_fallen_behind"]) == (1234.5, 10, 2)
    assert load["arms"] == summary["arms"]


def test_the_arm_without_anything(summary: dict[str, Any]) -> None:
    assert summary["arms"]["neither"] == {
        "steps": 300,
        "rpcs_per_step": 6.0,
        "op_latency_us": {
            "pull": distribution(500 + 19.2, 510, 560, 810),
            "push": distribution(700 + 19.2, 710, 760, 1010),
        },
        "rpc_latency_us": distribution(200 + 19.2, 210, 260, 510),
        "rpc_latency_by_class_us": {
            "all_hit": NOTHING,
            "mixed": NOTHING,
            "cold": distribution(200 + 19.2, 210, 260, 510),
        },
        "rpcs_per_step_by_class": {"all_hit": 0.0, "mixed": 0.0, "cold": 6.0},
        "metrics_us": {
            "w_proc": 3.0,
            "w_queue": 6.0,
            "ps_proc": 40.0,
            "ps_queue": 20.0,
            "n_tx": about(131 + 19.2),
            "switch": 8.0,
        },
        # Six RPCs of 40 µs; 2.7 ms over 30 steps.
        "ps_proc_us_per_step": {"wall": 240.0, "cpu": 90.0},
        "ps_packets_per_step": 6.0,
        # Headers of 56 B, 8 B a key and 4 B a value: six RPCs, 72 keys pulled and 72 pushed.
        "ps_bytes_per_step": 6 * 56 + 72 * 8 + 72 * 12,
        "ps_cpu_s": about(10 * 0.012),
        "step_us": about(5700 + 19.2),
        "step_latency_us": distribution(5700 + 19.2, 5710, 5760, 6010),
        "loss": about(0.5),
    }


def test_the_arm_with_a_hot_set(summary: dict[str, Any]) -> None:
    """Three RPCs of an operation are all-hit (70 µs), two cold (200) and one mixed (290): 150 on average."""
    extra = 19.2 + 60 / 10
    assert summary["arms"]["hot"] == {
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
        "step_us": about(5450 + extra),
        "step_latency_us": distribution(5450 + extra, 5460, 5520, 5760),
        "loss": about(0.53),
    }


def compared(baseline: float, value: float, low: float, high: float) -> dict[str, object]:
    numbers = {"baseline": baseline, "value": value, "difference": value - baseline}
    numbers |= {"low": low, "high": high}
    # The baseline's rounds are all alike, so its resamples are too.
    numbers |= {
        "ratio": value / baseline - 1,
        "ratio_low": low / baseline,
        "ratio_high": high / baseline,
    }
    return {name: pytest.approx(number, rel=1e-6, abs=1e-6) for name, number in numbers.items()}


def test_differences_of_the_arm_with_a_hot_set(summary: dict[str, Any]) -> None:
    # With round 7 four times it is 0 (72), 10 (66), 60 (54), 70 (44), 120 (4), 310 (6), 370 (4): by 10, 120
    # and 370.
    assert summary["loads"]["0.5"]["differences"]["hot"] == {
        "pull_mean": compared(519.2, 425.2, -100, -100 + 24),
        "pull_p50": compared(510, 410, -100, -100),
        "pull_p95": compared(560, 470, 460 - 560, 520 - 560),
        "pull_p99": compared(810, 710, 710 - 810, 770 - 810),
        "push_mean": compared(719.2, 475.2, -250, -250 + 24),
        "push_p50": compared(710, 460, -250, -250),
        "push_p95": compared(760, 520, 510 - 760, 570 - 760),
        "push_p99": compared(1010, 760, 760 - 1010, 820 - 1010),
        "step_mean": compared(5719.2, 5475.2, -250, -250 + 24),
        "step_p50": compared(5710, 5460, -250, -250),
        "step_p95": compared(5760, 5520, 5510 - 5760, 5570 - 5760),
        "step_p99": compared(6010, 5760, 5760 - 6010, 5820 - 6010),
        "rpcs_per_step": compared(6, 12, 6, 6),
        "rpc_mean": compared(219.2, 175.2, -50, -50 + 24),
        "ps_proc_cpu_us_per_step": compared(90, 74, -20, -20 + 16),
        # 12 ms over 30 steps; 9 ms, in round 7 10.5 ms.
        "ps_cpu_us_per_step": compared(400, 305, -100, -100 + 20),
        "ps_packets_per_step": compared(6, 6.1, 0, 0.4),
        "ps_bytes_per_step": compared(1776, 1813.2, 28, 28 + 36.8),
        # 15 ms over 30 steps; 18 ms, in round 7 21 ms.
        "worker_cpu_us_per_step": compared(500, 610, 100, 100 + 40),
        "loss": compared(0.5, 0.53, 0.02, 0.06),
    }


def test_differences_of_the_arms_whose_rounds_are_alike(summary: dict[str, Any]) -> None:
    differences = summary["loads"]["0.5"]["differences"]
    assert set(differences) == {"again", "proxy", "hot", "both"}
    again = dict.fromkeys(("pull_mean", "push_p99", "ps_packets_per_step", "loss"), 0)
    proxy = {"pull_mean": -10, "push_mean": 0, "rpc_mean": -8, "ps_proc_cpu_us_per_step": -2, "loss": 0}
    proxy |= {"ps_cpu_us_per_step": -10, "ps_bytes_per_step": 0, "worker_cpu_us_per_step": 10}
    both = {"pull_mean": -110, "push_mean": -260, "rpc_mean": -50, "ps_proc_cpu_us_per_step": -30}
    both |= {"ps_cpu_us_per_step": -120, "ps_bytes_per_step": 28, "worker_cpu_us_per_step": 120}
    expected: dict[str, dict[str, float]] = {
        "again": {**again},
        "proxy": {**proxy},
        "both": {**both, "loss": 0.01},
    }
    for arm, metrics in expected.items():
        for metric, difference in metrics.items():
            found = differences[arm][metric]
            bounds = [found["difference"], found["low"], found["high"]]
            assert bounds == pytest.approx([difference] * 3, abs=1e-6), (arm, metric)
