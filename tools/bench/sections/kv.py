"""A script's worker: steps of push_pull, alternating with the same steps of the built-in worker."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from hosts.sockets import open_udp
from switch_bench.processes import pinned
from switch_bench.results import Goal, Result, Samples
from switch_bench.stage import Stage
from tools.bench.results import BUILT_IN, LIBRARY, LIBRARY_COST, SCRIPTS
from tools.bench.scripts import HOST, SERVER, StepTimes, script
from tools.bench.stepper import Stepper, stepping

_PARAMETERS = 900_000
_ROWS = 3_000
_DIMS = (16, 64)
_REPEATS = 3
_WARMUP_STEPS = 50
_MIN_STEPS = 2
_VALUES_PER_SECOND = 1_000_000  # approximate rate, each pushed and pulled
_WORKER_PORT = 20_002


def kv(stage: Stage) -> list[Result]:
    with pinned({stage.cores.generator}):
        return [
            *results_of(_measure_alternating(stage)),
            *(_rate(dim, _measure_library(stage, dim)) for dim in _DIMS),
        ]


def _measure_alternating(stage: Stage) -> Mapping[str, Sequence[StepTimes]]:
    times: dict[str, list[StepTimes]] = defaultdict(list)
    with ExitStack() as stack:
        running_script = stack.enter_context(
            script(_PARAMETERS, dim=1, rows=_ROWS, core=stage.cores.softswitch)
        )
        sock = stack.enter_context(closing(open_udp((HOST, _WORKER_PORT))))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stepper = stack.enter_context(stepping(sock, SERVER, _PARAMETERS, _ROWS, folder))
        running_script.run(_WARMUP_STEPS)
        stepper.run(_WARMUP_STEPS)
        for target in stage.shuffled([LIBRARY, BUILT_IN], _REPEATS):
            stage.announce(f"{target}: {_ROWS:,} keys a step")
            steps = _steps(stage, dim=1)
            times[target].append(
                running_script.run(steps) if target == LIBRARY else _measure_stepper(stepper, steps)
            )
    return times


def _measure_stepper(stepper: Stepper, steps: int) -> StepTimes:
    """Return step times without the CPU time of the log-writer thread, as a script writes no log."""
    wall_start_s, cpu_start_s = time.perf_counter(), time.thread_time()
    stepper.run(steps)
    wall_s, cpu_s = time.perf_counter() - wall_start_s, time.thread_time() - cpu_start_s
    return StepTimes(wall_s / steps * 1e6, cpu_s / steps * 1e6, library_cpu=0)


def _measure_library(stage: Stage, dim: int) -> list[StepTimes]:
    stage.announce(f"{LIBRARY}: {_ROWS:,} rows of {dim}")
    with script(_PARAMETERS, dim, _ROWS, stage.cores.softswitch) as running_script:
        running_script.run(_MIN_STEPS)
        return [running_script.run(_steps(stage, dim)) for _ in range(stage.scale.rounds)]


def _steps(stage: Stage, dim: int) -> int:
    return max(_MIN_STEPS, round(stage.scale.latency_seconds * _VALUES_PER_SECOND / _ROWS / dim))


def results_of(times: Mapping[str, Sequence[StepTimes]]) -> Iterator[Result]:
    what = f"push_pull of {_ROWS:,} keys, 1 value each"
    yield _result(
        what, "µs", {target: [each.wall for each in rounds] for target, rounds in times.items()}, LIBRARY_COST
    )
    cpu = {target: [each.cpu for each in rounds] for target, rounds in times.items()}
    yield _result(f"{what}: CPU time", "µs", cpu, LIBRARY_COST)
    library = times[LIBRARY]
    yield _result(f"{what}: CPU time, calls", "µs", {LIBRARY: [each.script_cpu for each in library]})
    yield _result(f"{what}: CPU time, library", "µs", {LIBRARY: [each.library_cpu for each in library]})
    yield _rate(dim=1, times=library)


def _rate(dim: int, times: Sequence[StepTimes]) -> Result:
    rates = [_ROWS * dim / (each.wall / 1e6) for each in times]
    return _result(f"push_pull of {_ROWS:,} rows of {dim}", "values/s", {LIBRARY: rates})


def _result(what: str, unit: str, samples: Samples, goals: tuple[Goal, ...] = ()) -> Result:
    return Result("kv", what, unit, samples, goals, SCRIPTS)
