"""Test the report of a run whose workers add up a vector in each step."""

from __future__ import annotations

from typing import Any

from analysis.caveats import facts
from analysis.paper import column_titles
from analysis.record import CapacityCheck
from analysis.report import difference_tables, measured_answer
from analysis.summary import ArmSummary, LatencyStatistics, Summary
from tests.harness.summaries import a_load, a_summary, of_ratio, terminal

NOTHING = LatencyStatistics(mean=None, p50=None, p95=None, p99=None)


def an_arm(push_us: float) -> ArmSummary:
    push = LatencyStatistics(mean=push_us, p50=push_us, p95=push_us, p99=push_us)
    return ArmSummary(
        steps=40, rpcs_per_step=313.0, op_latency_us={"pull": NOTHING, "push": push}, rpc_latency_us=NOTHING,
        rpc_latency_by_class_us={}, rpcs_per_step_by_class={}, metrics_us={}, ps_proc_us_per_step={},
        ps_packets_per_step=0.0, ps_bytes_per_step=0.0, ps_cpu_s=0.0, step_us=None, step_latency_us=NOTHING,
        loss=None,
    )  # fmt: skip


def run_summary(push_us: dict[str, float], **changes: Any) -> Summary:
    arms = {name: an_arm(us) for name, us in push_us.items()}
    others = list(push_us)[1:]
    load = a_load(
        offered_rate=None, arms=arms, differences={name: {"push_mean": of_ratio(0.25)} for name in others}
    )
    values: dict[str, Any] = {
        "vector": 20_000, "capacity": dict.fromkeys(push_us, 200.0), "arms": arms, "cpus": 2,
        "capacity_checks": [CapacityCheck(when="end", capacity=dict.fromkeys(push_us, 100.0))],
        "updates": {"sent": 5, "applied": 5, "lost": 0, "unknown": 0, "mismatched_keys": 0, "collected": 0},
    }  # fmt: skip
    return a_summary({"closed loop": load}, **{**values, **changes})


def test_goodput_is_values_over_the_time_of_a_push() -> None:
    """The arms take 8 and 10 ms for 20,000 values."""
    summary = run_summary({"switchml": 8_000.0, "switchml-checked": 10_000.0})
    assert facts(summary).goodput == {"switchml": 2.5e6, "switchml-checked": 2e6}
    assert facts(run_summary({"ring": 200_000.0}, vector=600)).goodput == {"ring": 3_000}
    assert facts(run_summary({"ring": 0.0})).goodput == {"ring": None}
    reported = measured_answer(summary)
    assert "8.0 ms" in reported.headline and "2.50 million" in reported.headline
    assert len(reported.sentences) == 3 and "2.00 million" in reported.texts()[1]


def test_lost_updates_replace_the_headline() -> None:
    lost = {"sent": 5, "applied": 4, "lost": 1, "unknown": 0, "mismatched_keys": 1}
    broken = measured_answer(run_summary({"ring": 8_000.0}, updates=lost))
    assert not broken.is_trusted
    headline = measured_answer(run_summary({"ring": 8_000.0})).headline
    assert broken.headline != headline == broken.texts()[0]


def test_a_capacity_that_drifts_by_half_is_reported() -> None:
    drift = facts(run_summary({"switchml": 8_000.0, "switchml-checked": 10_000.0})).drift
    assert drift is not None and drift.is_large
    assert (drift.first_capacity, drift.later_capacities) == (200, [("end", 100)])
    usual = a_summary(
        {"0.5": a_load()}, capacity_checks=[CapacityCheck(when="end", capacity={"baseline": 181})]
    )
    assert (drift := facts(usual).drift) is not None and not drift.is_large
    assert facts(a_summary({"0.5": a_load()})).drift is None


def test_the_breakdown_omits_rows_that_no_arm_has() -> None:
    arm = an_arm(8_000.0).model_copy(
        update={
            "rpcs_per_step_by_class": {"all_hit": 0.0, "mixed": 0.0, "cold": 12.0},
            "rpc_latency_by_class_us": dict.fromkeys(("all_hit", "mixed", "cold"), NOTHING),
            "metrics_us": {"ps_proc": 0.0, "w_queue": 10.1},
        }
    )
    shown = terminal(run_summary({"ring": 8_000.0}, arms={"ring": arm}))
    assert "cold × latency" in shown and "w_queue" in shown
    assert "all-hit" not in shown and "ps_proc" not in shown
    # A metric that one arm has is shown for all.
    other = arm.model_copy(update={"metrics_us": {"ps_proc": 7.5, "w_queue": 0.0}})
    both = {"switchml": arm, "switchml-checked": other}
    shown = terminal(run_summary(dict.fromkeys(both, 8_000.0), arms=both))
    [proc] = [line for line in shown.splitlines() if line.startswith("ps_proc")]
    assert proc.split() == ["ps_proc", "0.0", "7.5"]


def test_a_run_of_one_arm_shows_its_numbers() -> None:
    [table] = difference_tables(run_summary({"ring": 8_000.0}), "closed loop")
    assert table.columns == ("", "ring") and "in % of" not in table.title
    push = next(row for row in table.rows if "push mean" in str(row[0]))
    assert "8,000" in str(push)
    # Workers pull from their own model, and servers have no work.
    shown = {str(row[0]) for row in table.rows}
    assert not [name for name in shown if "pull" in name or "PS" in name]
    summary = run_summary({"switchml": 8_000.0, "switchml-checked": 10_000.0})
    [table] = difference_tables(summary, "closed loop")
    assert table.columns == ("", "switchml", "switchml-checked") and "in % of switchml" in table.title


def test_an_aggregating_baseline_is_not_labelled_without() -> None:
    assert list(column_titles(["switchml", "switchml-checked"]).values()) == [
        "here, switchml", "here, with switchml-checked",
    ]  # fmt: skip
    assert column_titles(["baseline", "offload"])["baseline"] == "here, without"
