"""Many ports: the loss-free rate by number of ports, and the CPU time of an idle switch."""

from __future__ import annotations

import time
from collections import defaultdict

from softswitch.messages import pluralize
from switch_bench import plain
from switch_bench.baseline import C_LOOP
from switch_bench.measure import ThroughputTest
from switch_bench.processes import cpu_seconds
from switch_bench.results import IDLE_MS, Result
from switch_bench.stage import Stage

_SETTLE_SECONDS = 1.0  # from the last table write until the switch is idle
_IDLE_SECONDS = 2.0
_IDLE_PORTS = 64


def ports(stage: Stage) -> list[Result]:
    """Measure L3 forwarding from the first port to all others in turn."""
    results = []
    for count in stage.scale.port_counts:
        rates: dict[str, list[float]] = defaultdict(list)
        workload = plain.l3(count)
        with stage.traffic(count) as generator:
            generator.load(workload)
            for target in stage.shuffled([*stage.switches(), C_LOOP]):
                stage.announce(f"{target}: {pluralize(count, 'port')}")
                with stage.target(target, count, plain.l3_setup(count), workload):
                    test = ThroughputTest(generator, stage.scale, target)
                    rates[target].append(test.highest_loss_free_rate())
        results.append(
            Result("ports", f"L3 forwarding from 1 port to {count - 1}, 128 B", "packets/s", rates)
        )
    return results


def idle(stage: Stage) -> list[Result]:
    cpu_ms = {}
    with stage.traffic(_IDLE_PORTS):
        for name in stage.switches():
            stage.announce(f"{name} idle")
            with stage.switch(name, _IDLE_PORTS, plain.l3_setup(_IDLE_PORTS)) as switch:
                time.sleep(_SETTLE_SECONDS)
                cpu_start_s = cpu_seconds(switch.pid)
                time.sleep(_IDLE_SECONDS)
                cpu_ms[name] = [(cpu_seconds(switch.pid) - cpu_start_s) / _IDLE_SECONDS * 1e3]
    return [Result("idle", f"idle, {_IDLE_PORTS} ports: CPU time a second", "ms", cpu_ms, IDLE_MS)]
