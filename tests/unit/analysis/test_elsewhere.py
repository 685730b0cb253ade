"""The answer that comes first: of a switch of its own, by virtual time, as far as that can be believed."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.elsewhere import answers, elsewhere, widened
from analysis.record import Virtual
from analysis.statistics import Comparison
from analysis.summary import Summary
from tests.harness.summaries import a_load, a_summary, of_ratio
from tests.harness.words import all_that_counts, what_counts

CPU, PULL, PUSH, RPCS = "ps_cpu_us_per_step", "pull_mean", "push_mean", "rpcs_per_step"


def virtual(own: dict[str, Comparison], shared: dict[str, Comparison], **changes: Any) -> Virtual:
    of: dict[str, Any] = {
        "load": "0.5",
        "own": own,
        "shared": shared,
        "own_capacity": {"neither": 1_000.0, "hot": 1_500.0},
        "shared_capacity": {"neither": 400.0, "hot": 300.0},
        "network": {"switch_us": 1.0, "switch_mpps": 1_000.0},
    }
    return Virtual(**{**of, **changes})


def summary(measured: dict[str, Comparison], found: Virtual | None) -> Summary:
    return a_summary(
        {"0.5": a_load(differences={"hot": measured})},
        virtual=found,
        cpus=2,
        capacity={"neither": 300.0, "hot": 250.0},
        program_share={"workers": 0.1, "servers": 0.1},
    )


MEASURED = {CPU: of_ratio(-0.3, -0.35, -0.25), PULL: of_ratio(0.1, 0.05, 0.15)}
SHARED = {CPU: of_ratio(-0.4, -0.41, -0.39), PULL: of_ratio(0.1, 0.08, 0.12)}
OWN = {CPU: of_ratio(-0.36, -0.37, -0.35), PULL: of_ratio(0.04, 0.02, 0.05)}


def test_an_interval_is_wider_by_what_the_model_is_off() -> None:
    """0.6 of *neither* where 0.7 was measured: a factor of 7/6, on either side."""
    found = widened(OWN[CPU], SHARED[CPU], MEASURED[CPU])
    assert (found.ratio, found.baseline) == (-0.36, 100)
    assert found.ratio_low == pytest.approx(0.63 * 6 / 7 - 1)
    assert found.ratio_high == pytest.approx(0.65 * 7 / 6 - 1)
    assert (found.low, found.high) == pytest.approx((100 * (0.54 - 1), 100 * (0.65 * 7 / 6 - 1)))
    assert widened(OWN[PULL], SHARED[PULL], MEASURED[PULL]).ratio_low == pytest.approx(0.02)
    # What nobody knows the interval of stays so.
    assert widened(of_ratio(0.1), SHARED[PULL], MEASURED[PULL]) == of_ratio(0.1)


def test_it_says_what_a_switch_of_its_own_would_do_and_how_far_that_is_believed() -> None:
    found = elsewhere(summary(MEASURED, virtual(OWN, SHARED)))
    assert found is not None and found.is_trusted
    assert what_counts(found.title) == what_counts("hot neither 0.5 neither 95 % model")
    *told, assumed, off = found.texts()
    assert all_that_counts(told) == all_that_counts(
        [
            "servers save -36 % [-46, -24] CPU",
            "pulls longer +4.0 % [+2.0, +5.0]",
            # 0.75 of the capacity in the model, where 0.83 was measured.
            "cluster carries 1.50 [1.35, 1.67] 1,500 steps/s workers 1,000",
        ]
    )
    assert "1 µs for a frame" in assumed and "1,000 million of them a second" in assumed
    model, measured = "servers' CPU a step -40 %", "measured -30 % [-35, -25]"
    assert f"{model}, {measured}" in off and "pulls +10 %, measured +10 % [+5.0, +15]" in off


def test_it_comes_before_what_was_measured_where_the_switch_shares_cores() -> None:
    first, second = answers(summary(MEASURED, virtual(OWN, SHARED)))
    assert first == elsewhere(summary(MEASURED, virtual(OWN, SHARED)))
    assert what_counts(second.title)[:4] == ["2", "workers", "hot", "neither"] and "shares" in second.title


def test_what_the_error_covers_is_not_claimed() -> None:
    shared = {**SHARED, PULL: of_ratio(0.3, 0.28, 0.32)}
    found = elsewhere(summary(MEASURED, virtual(OWN, shared)))
    assert found is not None
    assert what_counts("measurable pulls +4.0 % [-14, +24]") in all_that_counts(found.texts())


def test_a_run_that_was_not_simulated_has_one_answer() -> None:
    assert len(answers(summary(MEASURED, None))) == 1
    assert elsewhere(summary(MEASURED, virtual(OWN, SHARED, load="0.8"))) is None


def test_nothing_follows_from_a_run_that_is_broken() -> None:
    found = summary(MEASURED, virtual(OWN, SHARED)).model_copy(update={"overflows": 1})
    assert [each.is_trusted for each in answers(found)] == [False]
