"""What the bench makes of paired runs."""

from __future__ import annotations

from packages.machines.bench import DIRECT, MACHINES, MININET, VXLAN, results_of
from packages.machines.tests import beside_mininet

SAMPLES = {
    "server's CPU": {
        MININET: [10.0, 20.0, 10.0], DIRECT: [10.5, 25.0, 10.5], VXLAN: [15.0, 30.0, 15.0],
    },
    "start of 64 agents": {MININET: [10.0], MACHINES: [16.0]},
}  # fmt: skip


def test_each_kind_of_machines_is_compared_with_mininet_of_its_round() -> None:
    found = {result.what: result for result in results_of(SAMPLES)}
    assert {what: (result.ratio(MININET), result.unit) for what, result in found.items()} == {
        "server's CPU, direct": (1.05, "µs"),
        "server's CPU, vxlan": (1.5, "µs"),
        "start of 64 agents, machines": (1.6, "s"),
    }
    met = {what: [result.is_met(goal) for goal in result.goals] for what, result in found.items()}
    assert list(met.values()) == [[True], [], [False]]


def test_the_bench_has_the_names_of_the_kinds_that_its_script_runs() -> None:
    names = (MININET, DIRECT, VXLAN, MACHINES)
    assert names == (
        beside_mininet.MININET, beside_mininet.DIRECT, beside_mininet.VXLAN, beside_mininet.MACHINES,
    )  # fmt: skip
