"""Packets/s without loss, and one-way latency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from switch_bench import plain
from switch_bench.baseline import C_LOOP
from switch_bench.measure import LOW_RATE, STEADY_RATE, Figures, ThroughputTest
from switch_bench.results import LATENCY, PACKETS_L3, Goal, Result
from switch_bench.stage import Stage
from switch_bench.workload import Setup, Workload

_PORTS = 2
_LATENCIES: dict[str, Callable[[Figures], float]] = {
    f"p50 at {LOW_RATE:,.0f}/s": lambda figures: figures.latency_at_low_rate[0],
    f"p99 at {LOW_RATE:,.0f}/s": lambda figures: figures.latency_at_low_rate[1],
    f"p50 at {STEADY_RATE:,.0f}/s": lambda figures: figures.latency_at_steady_rate[0],
    f"p99 at {STEADY_RATE:,.0f}/s": lambda figures: figures.latency_at_steady_rate[1],
    "p50 at 10 % of its own capacity": lambda figures: figures.latency_at_tenth_of_rate[0],
    "p99 at 10 % of its own capacity": lambda figures: figures.latency_at_tenth_of_rate[1],
}


class Case(NamedTuple):
    workload: Workload
    goals: tuple[Goal, ...]


def forwarding(stage: Stage) -> list[Result]:
    return compare(stage, "L3 forwarding", plain.l3_setup(), [Case(plain.l3(), PACKETS_L3)])


def compare(stage: Stage, program: str, setup: Setup, cases: Sequence[Case]) -> list[Result]:
    """Measure the switches and the C loop in paired runs over the same veths, with one program."""
    figures: dict[str, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    with stage.traffic(_PORTS) as generator:
        for target in stage.shuffled([*stage.switches(), C_LOOP]):
            first_workload = cases[0].workload  # of all cases, as they have the egress port at one offset
            with stage.target(target, _PORTS, setup, first_workload):
                for workload, _ in cases:
                    stage.announce(f"{target}: {program}, {workload.name}")
                    generator.load(workload)
                    test = ThroughputTest(generator, stage.scale, target)
                    figures[workload.name][target].append(test.figures())
    return [result for case in cases for result in _results(program, case, figures[case.workload.name])]


def _results(program: str, case: Case, figures: dict[str, list[Figures]]) -> list[Result]:
    what = f"{program}, {case.workload.name}"
    rates = {target: [each.rate for each in rounds] for target, rounds in figures.items()}
    results = [Result("forwarding", what, "packets/s", rates, case.goals)]
    for heading, estimate in _LATENCIES.items():
        samples = {target: [estimate(each) for each in rounds] for target, rounds in figures.items()}
        results.append(Result("forwarding", f"{what}: {heading}", "µs", samples, LATENCY))
    return results
