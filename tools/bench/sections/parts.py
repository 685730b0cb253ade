"""Where a packet's time goes: loops that do more and more of the work, by the CPU time of their core."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from tools.bench import hotline, plain
from tools.bench.baseline import C_LOOP, PORT_LOOP
from tools.bench.errors import BenchError
from tools.bench.processes import cpu_seconds
from tools.bench.results import Result
from tools.bench.stage import Stage
from tools.bench.switches import SOFTSWITCH
from tools.bench.traffic import Generator
from tools.bench.workload import Setup, Workload

_PORTS = 2
_WARM = 50_000
_FRAMES_A_SECOND = 400_000  # about
_UNPACED = 1e9
_WINDOW = 512  # what the slowest finds waiting: full bursts, and less than a ring, so that none is lost


def parts(stage: Stage) -> list[Result]:
    """CPU time a packet with a full window; what a step adds is its difference to the one before."""
    l3, hit, cold = plain.l3(), hotline.hot(), hotline.cold()
    ours = hotline.setup()
    return [
        *_steps(stage, [
            ("ring to ring, 128 B", C_LOOP, plain.wire_setup(), l3),
            ("and the port loop, 128 B", PORT_LOOP, plain.wire_setup(), l3),
            ("and a program that does nothing, 128 B", SOFTSWITCH, plain.wire_setup(), l3),
            ("and L3 forwarding, 128 B", SOFTSWITCH, plain.l3_setup(), l3),
        ]),
        *_steps(stage, [
            ("ring to ring, 482 B", C_LOOP, plain.wire_setup(), cold),
            ("and the port loop, 482 B", PORT_LOOP, plain.wire_setup(), cold),
            ("and a program that does nothing, 482 B", SOFTSWITCH, plain.wire_setup(), cold),
            ("and our program, 32 lanes cold", SOFTSWITCH, ours, cold),
            ("our program, 32 lanes hit: 98 B go back", SOFTSWITCH, ours, hit),
        ]),
    ]  # fmt: skip


def _steps(stage: Stage, steps: list[tuple[str, str, Setup, Workload]]) -> list[Result]:
    costs: dict[int, list[float]] = defaultdict(list)
    with stage.traffic(_PORTS) as generator:
        for k in stage.shuffled(range(len(steps))):
            what, target, setup, workload = steps[k]
            stage.tell(what)
            generator.load(workload)
            with stage.target(target, _PORTS, setup, workload) as pid:
                costs[k].append(_ns_a_packet(generator, pid, stage.scale.latency_seconds))
    results, before = [], 0.0
    for k, (what, target, *_) in enumerate(steps):
        cost = median(costs[k])
        added = f" ({cost - before:+,.0f})" if before else ""
        column = C_LOOP if target == C_LOOP else SOFTSWITCH
        results.append(Result("parts", f"a packet's time: {what}{added}", "ns", {column: costs[k]}))
        before = cost
    return results


def _ns_a_packet(generator: Generator, pid: int, seconds: float) -> float:
    generator.run(_WARM, _UNPACED, _WINDOW)
    before = cpu_seconds(pid)
    trial = generator.run(round(seconds * _FRAMES_A_SECOND), _UNPACED, _WINDOW)
    if trial.lost:
        raise BenchError(f"{trial.lost} of {trial.sent} packets were lost, though few were on their way")
    return (cpu_seconds(pid) - before) * 1e9 / trial.received
