"""When a difference is claimed: on its own interval, its own null and its own blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.claims import claim_of_learning, claims
from analysis.disturbed_blocks import DisturbedBlocks
from analysis.metrics import LOSS, METRICS, PS_CPU, PS_PACKETS, block_metrics, metrics_of_table
from analysis.statistics import Comparison, compare_paired
from analysis.verdict import Claim, Verdict
from tests.harness.summaries import a_load, a_summary, of_ratio
from tests.unit.analysis.synthetic import block

PULL = METRICS["pull_mean"]
LATER = of_ratio(0.2, 0.1, 0.3)


def claimed(found: Comparison, null: Comparison | None = None) -> int:
    return Claim(PULL, found, null).sign


@pytest.mark.parametrize(
    ("found", "sign"),
    [
        (of_ratio(0.2, 0.01, 0.4), 1),
        (of_ratio(-0.2, -0.4, -0.01), -1),
        (of_ratio(0.2, 0.0, 0.4), 0),
        (of_ratio(0.2, -0.01, 0.4), 0),
        (of_ratio(-0.2, -0.4, 0.0), 0),
        (of_ratio(0.2), 0),
        # What is shown as 0.0 %.
        (of_ratio(0.0003, 0.0002, 0.0005), 0),
        (of_ratio(0.0003, 0.0002, 0.0006), 1),
    ],
)
def test_the_interval_has_to_leave_out_0(found: Comparison, sign: int) -> None:
    assert claimed(found) == sign


@pytest.mark.parametrize(
    ("null", "sign"),
    [
        (of_ratio(0.0, -0.19, 0.19), 1),
        (of_ratio(0.0, -0.05, 0.2), 0),
        # As far to the other side is as much.
        (of_ratio(-0.1, -0.2, 0.05), 0),
        # *repeat* differs from *baseline* by more, and significantly: then no smaller difference is claimed.
        (of_ratio(0.3, 0.25, 0.35), 0),
        (of_ratio(0.0), 1),
        (None, 1),
    ],
)
def test_a_difference_is_claimed_only_if_the_repeat_does_not_show_as_much(
    null: Comparison | None, sign: int
) -> None:
    assert claimed(LATER, null) == sign


def test_the_metric_says_whether_more_or_less_is_better() -> None:
    more = replace(PULL, better="more")
    less = of_ratio(-0.2, -0.3, -0.1)
    tones = [Claim(metric, of).tone for metric in (PULL, more) for of in (LATER, less)]
    assert tones == ["worse", "better", "better", "worse"]
    assert Claim(more, of_ratio(0.2, -0.1, 0.5)).tone == ""


def test_each_metric_has_its_own_null() -> None:
    """The null of pulls is wide, which does not affect claims for packets."""
    fewer = of_ratio(-0.4, -0.5, -0.3)
    load = a_load(
        differences={
            "offload": {"pull_mean": LATER, "ps_packets_per_step": fewer},
            "repeat": {"pull_mean": of_ratio(0, -0.5, 0.9), "ps_packets_per_step": of_ratio(0, 0, 0)},
        }
    )
    found = claims(a_summary({"0.5": load}), "0.5", "offload")
    assert {name: each.sign for name, each in found.items()} == {"pull_mean": 0, "ps_packets_per_step": -1}
    assert found["pull_mean"].is_noise


def test_the_repeats_own_difference_is_shown_by_its_interval_alone() -> None:
    load = a_load(differences={"repeat": {"pull_mean": LATER}})
    assert claims(a_summary({"0.5": load}), "0.5", "repeat")["pull_mean"].sign == 1


def test_disturbed_blocks_invalidate_only_times_of_the_disturbed_arm() -> None:
    steal = DisturbedBlocks(blocks=20, disturbed=5, reasons={"steal": 5})
    of_arm = {"pull_mean": LATER, "ps_cpu_us_per_step": LATER, "ps_packets_per_step": LATER}
    load = a_load(
        differences={"offload": of_arm, "proxy": of_arm}, invalidated_by={"offload": {"time": steal}}
    )
    summary = a_summary({"0.5": load})
    hot, proxy = (claims(summary, "0.5", arm) for arm in ("offload", "proxy"))
    assert {name: each.verdict for name, each in hot.items()} == {
        "pull_mean": Verdict.DISTURBED,
        "ps_cpu_us_per_step": Verdict.MORE,
        "ps_packets_per_step": Verdict.MORE,
    }
    assert hot["pull_mean"].disturbed == steal and proxy["pull_mean"].disturbed is None
    assert proxy["pull_mean"].verdict is Verdict.MORE


def test_rows_that_the_logs_lack_invalidate_times_and_nothing_that_is_counted_elsewhere() -> None:
    of_arm = {metric.name: LATER for metric in METRICS.values()}
    summary = a_summary({"0.5": a_load(differences={"offload": of_arm})}, dropped_rows=9)
    found = claims(summary, "0.5", "offload")
    assert {each.metric.kind for each in found.values() if each.sign == 0} == {"time"}
    assert {each.metric.kind for each in found.values() if each.sign} == {"count", "cpu"}
    assert {each.dropped_rows for each in found.values() if each.metric.kind == "time"} == {9}


def test_a_change_from_0_is_claimed_and_a_metric_that_stays_0_is_not_reported() -> None:
    rounds = np.array([3.0, 4, 5, 3, 4, 5])
    from_zero, nothing = (compare_paired(rounds * size, np.zeros(6)) for size in (1, 0))
    found = claims(
        a_summary({"0.5": a_load(differences={"offload": {"pull_mean": from_zero, "push_mean": nothing}})}),
        "0.5", "offload",
    )  # fmt: skip
    assert {name: claim.verdict for name, claim in found.items()} == {"pull_mean": Verdict.MORE}
    assert claims(a_summary({"0.5": a_load()}), "0.5", "offload") == {}
    # The repeat of the baseline differs by as much, or by less, in the metric's unit.
    for size, verdict in ((1.0, Verdict.AS_NULL), (0.5, Verdict.MORE)):
        null = compare_paired(size * rounds, np.zeros(6))
        assert Claim(PULL, from_zero, null).verdict is verdict


def test_a_loss_within_its_tolerance_is_the_same() -> None:
    def of(low: float, high: float) -> Claim:
        loss = of_ratio((low + high) / 2, low, high)
        found = claim_of_learning(a_summary({}, learning={"offload": loss}), "offload")
        assert found is not None
        return found

    assert LOSS.tolerance == 0.01
    # Significant, but the same in practice.
    assert of(0.002, 0.01).verdict is Verdict.SAME
    assert of(0.002, 0.011).verdict is Verdict.MORE
    assert of(-0.011, 0.002).verdict is Verdict.CONTAINS_ZERO
    assert claim_of_learning(a_summary({}), "offload") is None


def test_equal_arms_lead_to_few_claims() -> None:
    """Three arms alike, in rounds with stalls: 5 % of intervals leave out 0, the null takes some of it."""
    rng = np.random.default_rng(5)
    by_interval = by_rule = 0
    for _ in range(1000):
        baseline, repeat, offload = rng.lognormal(0, 0.1, (3, 10)) * (1 + rng.pareto(2, (3, 10)))
        found, null = compare_paired(offload, baseline), compare_paired(repeat, baseline)
        by_interval += claimed(found) != 0
        by_rule += claimed(found, null) != 0
    assert 30 <= by_interval <= 70
    assert 0 < by_rule < 0.6 * by_interval


def test_a_large_difference_is_claimed_in_nearly_all_runs() -> None:
    """Three times what rounds differ by."""
    rng = np.random.default_rng(6)
    made = 0
    for _ in range(200):
        baseline, repeat, offload = rng.lognormal(0, 0.1, (3, 10))
        made += claimed(compare_paired(1.35 * offload, baseline), compare_paired(repeat, baseline)) == 1
    assert made >= 196


def test_a_metrics_mean_is_of_all_steps_of_the_blocks() -> None:
    one = block(0, 0.5, "offload")
    more = one.model_copy(update={"steps": 60, "servers": one.servers.model_copy(update={"packets": 1200})})
    # 400 packets of 20 steps, and 1,200 of 60 others; 0.25 s each.
    assert block_metrics([one, more], [PS_PACKETS, PS_CPU]) == {
        PS_PACKETS.name: 20,
        PS_CPU.name: pytest.approx(0.5e6 / 80),
    }
    assert block_metrics([], [PS_PACKETS]) == {PS_PACKETS.name: 0}


def test_metrics_have_distinct_names_and_titles() -> None:
    shown = metrics_of_table("differences")
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
    assert shown and all(metric.is_compared for metric in shown)
    assert (PS_CPU.title, PS_PACKETS.title) == ("PS CPU/step, µs", "packets to PS/step")
