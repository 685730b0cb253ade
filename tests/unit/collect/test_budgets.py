"""What collecting less often saves and costs, simulated (`python -m tools.bench.collection`)."""

from __future__ import annotations

from experiment.config import WorkloadShape
from simulator.experiment import quiet_reporter
from tools.bench.collection import Outcome, measure

SMALL = WorkloadShape(parameters=30_000, hot_parameters=600, keys_per_step=300)


def outcome(budget: tuple[float, float]) -> Outcome:
    sizes = dict(workload=SMALL, top_k=600, profile_lanes=20_000, calibration_s=0.05)
    return measure(budget, "adagrad(lr=0.1)", 300, quiet_reporter(), **sizes)


def test_a_smaller_budget_costs_servers_less_and_training_more() -> None:
    often, seldom = outcome((5.0, 0.5)), outcome((200.0, 0.05))
    assert often.p50_ms < seldom.p50_ms and often.p99_ms < 20 < seldom.p99_ms
    assert often.server_cpu > seldom.server_cpu + 0.2
    assert often.baseline_loss == seldom.baseline_loss < often.loss < seldom.loss
    # Workers see the same switch.
    assert often.packets == seldom.packets < -0.3 and abs(often.pull - seldom.pull) < 0.02
