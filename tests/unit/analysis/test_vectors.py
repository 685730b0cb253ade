"""What a run says whose workers add up a vector each step."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.answer import answer
from analysis.facts import facts
from analysis.page.tables import differences
from analysis.page.words import reading
from analysis.paper import columns
from analysis.record import CapacityCheck
from analysis.summary import ArmSummary, Distribution, Summary
from analysis.table import print_summary
from foundation.designs.registry import design
from tests.harness.summaries import a_load, a_summary, of_ratio
from tests.harness.words import what_counts

NOTHING = Distribution(mean=None, p50=None, p95=None, p99=None)


def an_arm(push_us: float) -> ArmSummary:
    push = Distribution(mean=push_us, p50=push_us, p95=push_us, p99=push_us)
    return ArmSummary(
        steps=40, rpcs_per_step=313.0, op_latency_us={"pull": NOTHING, "push": push}, rpc_latency_us=NOTHING,
        rpc_latency_by_class_us={}, rpcs_per_step_by_class={}, metrics_us={}, ps_proc_us_per_step={},
        ps_packets_per_step=0.0, ps_bytes_per_step=0.0, ps_cpu_s=0.0, step_us=None, step_latency_us=NOTHING,
        loss=None,
    )  # fmt: skip


def of_run(push_us: dict[str, float], **changes: Any) -> Summary:
    arms = {name: an_arm(us) for name, us in push_us.items()}
    others = list(push_us)[1:]
    load = a_load(
        offered_rate=None, arms=arms, differences={name: {"push_mean": of_ratio(0.25)} for name in others}
    )
    of: dict[str, Any] = {
        "vector": 20_000, "capacity": dict.fromkeys(push_us, 200.0), "arms": arms, "cpus": 2,
        "capacity_checks": [CapacityCheck(when="end", capacity=dict.fromkeys(push_us, 100.0))],
        "updates": {"sent": 5, "applied": 5, "lost": 0, "unknown": 0, "mismatched_keys": 0, "collected": 0},
    }  # fmt: skip
    return a_summary({"closed loop": load}, **{**of, **changes})


def test_the_headline_is_time_and_goodput() -> None:
    told = answer(of_run({"switchml": 8_000.0, "switchml-checked": 10_000.0}))
    # 20,000 values in 8 ms, and in 10.
    assert what_counts(told.headline) == what_counts(
        "all workers 20,000 values 8.0 ms 2.50 million values/s a worker"
    )
    summed, other, promise = told.texts()
    of = design("switchml")
    assert of.summary[1:] in summed and of.promise in promise
    assert "switchml-checked" in other and "2.00 million" in other


def test_slow_agents_have_no_millions() -> None:
    """600 values in 200 ms."""
    told = answer(of_run({"ring": 200_000.0}, vector=600))
    assert "3,000 values/s" in told.headline


def test_what_is_lost_is_more_important() -> None:
    lost = {"sent": 5, "applied": 4, "lost": 1, "unknown": 0, "mismatched_keys": 1}
    told = answer(of_run({"ring": 8_000.0}, updates=lost))
    assert not told.is_trusted and "1 updates were lost" in told.headline


def test_nothing_is_said_of_loads_or_of_the_servers_log() -> None:
    told = list(facts(of_run({"switchml": 8_000.0, "switchml-checked": 10_000.0})))
    capacity = [fact for fact in told if "apacity" in fact or "lowest" in fact]
    assert len(capacity) == 2 and not any("fraction" in fact for fact in capacity)
    assert "-50%" in capacity[1] and capacity[1].startswith("WARNING")
    assert not any("collector" in fact for fact in told)
    usual = a_summary(
        {"0.5": a_load()},
        offered_rate={"0.5": 100.0},
        capacity_checks=[CapacityCheck(when="end", capacity={"neither": 99.0})],
    )
    assert any("fractions of the lowest" in fact for fact in facts(usual))


def test_the_breakdown_has_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    arm = an_arm(8_000.0).model_copy(
        update={
            "rpcs_per_step_by_class": {"all_hit": 0.0, "mixed": 0.0, "cold": 12.0},
            "rpc_latency_by_class_us": dict.fromkeys(("all_hit", "mixed", "cold"), NOTHING),
            "metrics_us": {"ps_proc": 0.0, "w_queue": 10.1},
        }
    )
    print_summary(of_run({"ring": 8_000.0}, arms={"ring": arm}))
    shown = capsys.readouterr().out
    assert "cold × latency" in shown and "w_queue" in shown
    assert "all-hit" not in shown and "ps_proc" not in shown
    # What one arm has is shown of all.
    other = arm.model_copy(update={"metrics_us": {"ps_proc": 7.5, "w_queue": 0.0}})
    both = {"switchml": arm, "switchml-checked": other}
    print_summary(of_run(dict.fromkeys(both, 8_000.0), arms=both))
    [proc] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ps_proc")]
    assert proc.split() == ["ps_proc", "0.0", "7.5"]


def test_a_run_of_one_arm_shows_its_numbers() -> None:
    [table] = differences(of_run({"ring": 8_000.0}), "closed loop")
    assert table.columns == ("", "ring") and "in % of" not in table.title
    push = next(row for row in table.rows if "push mean" in str(row[0]))
    assert "8,000" in str(push)
    # Pulls are of one's own model, and servers have nothing to do.
    shown = {str(row[0]) for row in table.rows}
    assert not [name for name in shown if "pull" in name or "PS" in name]
    [table] = differences(of_run({"switchml": 8_000.0, "switchml-checked": 10_000.0}), "closed loop")
    assert table.columns == ("", "switchml", "switchml-checked") and "in % of switchml" in table.title


def test_a_baseline_that_aggregates_is_not_called_without() -> None:
    assert list(columns(["switchml", "switchml-checked"]).values()) == [
        "here, switchml", "here, with switchml-checked",
    ]  # fmt: skip
    assert columns(["neither", "hot"])["neither"] == "here, without"


def test_how_to_read_it_says_that_workers_wait_for_each_other() -> None:
    first, *_ = reading(of_run({"ring": 8_000.0}), is_virtual=False)
    assert "wait for the slowest" in first and "same pace" not in first
    paced, *_ = reading(a_summary({"0.5": a_load()}), is_virtual=False)
    assert "same pace" in paced
