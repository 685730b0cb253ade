"""CPU time of the parts of packet processing, from targets that each do one part more than the previous."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from switch_bench import plain
from switch_bench.baseline import C_LOOP, PORT_LOOP
from switch_bench.errors import BenchError
from switch_bench.processes import cpu_seconds
from switch_bench.results import Result
from switch_bench.stage import Stage
from switch_bench.switches import SOFTSWITCH
from switch_bench.traffic import Generator
from switch_bench.workload import Setup, Workload

_PORTS = 2
_WARM_UP_FRAMES = 50_000
_FRAMES_A_SECOND = 400_000  # assumed rate, which determines the number of frames
_UNPACED = 1e9  # frames/s, so that only the window limits the rate
_WINDOW = 512  # frames in flight: enough for full bursts, but fewer than a ring holds


class Step(NamedTuple):
    """A part of the work on a packet, and the target that does this part and all parts before it."""

    what: str
    target: str
    setup: Setup
    workload: Workload


def parts(stage: Stage) -> list[Result]:
    l3 = plain.l3()
    forwarding = Step("and L3 forwarding, 128 B", SOFTSWITCH, plain.l3_setup(), l3)
    return measure_steps(stage, [*steps_without_program(l3), forwarding])


def steps_without_program(workload: Workload) -> list[Step]:
    """Return the steps before a program's own work."""
    size, setup = f"{len(workload.frames[0])} B", plain.wire_setup()
    return [
        Step(f"ring to ring, {size}", C_LOOP, setup, workload),
        Step(f"and the port loop, {size}", PORT_LOOP, setup, workload),
        Step(f"and a program that does nothing, {size}", SOFTSWITCH, setup, workload),
    ]


def measure_steps(stage: Stage, steps: Sequence[Step]) -> list[Result]:
    """Measure the CPU time of a packet in each step, with a full window, and its increase by the step."""
    costs: dict[int, list[float]] = defaultdict(list)
    with stage.traffic(_PORTS) as generator:
        for k in stage.shuffled(range(len(steps))):
            what, target, setup, workload = steps[k]
            stage.announce(what)
            generator.load(workload)
            with stage.target(target, _PORTS, setup, workload) as pid:
                costs[k].append(_ns_a_packet(generator, pid, stage.scale.latency_seconds))
    results, previous_cost = [], 0.0  # 0 before the first step
    for k, (what, target, *_) in enumerate(steps):
        cost = median(costs[k])
        added = f" ({cost - previous_cost:+,.0f})" if previous_cost else ""
        column = C_LOOP if target == C_LOOP else SOFTSWITCH
        results.append(Result("parts", f"a packet's time: {what}{added}", "ns", {column: costs[k]}))
        previous_cost = cost
    return results


def _ns_a_packet(generator: Generator, pid: int, seconds: float) -> float:
    generator.run(_WARM_UP_FRAMES, _UNPACED, _WINDOW)
    cpu_start_s = cpu_seconds(pid)
    trial = generator.run(round(seconds * _FRAMES_A_SECOND), _UNPACED, _WINDOW)
    if trial.lost:
        raise BenchError(f"{trial.lost} of {trial.sent} packets were lost, with at most {_WINDOW} in flight")
    return (cpu_seconds(pid) - cpu_start_s) * 1e9 / trial.received
