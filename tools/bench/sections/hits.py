"""Cost of a hit with the keys of a run, with caches warm and evicted, compared with a lower bound."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import numpy as np

from controller.tables import TableRow
from foundation.protocol.header import WINDOW, lanes_of_dim
from hosts.workload.generator import R1
from hotline_simulator.simulated_switch import RowWriter
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.pipeline import ControlPlane
from switch_bench.baseline import C_LOOP
from switch_bench.errors import BenchError
from switch_bench.processes import pinned
from switch_bench.results import Result
from switch_bench.stage import Stage
from switch_bench.switches import KERNEL, SOFTSWITCH
from switch_harness.kernel import OnLoopback
from tools.bench import counters, hotline, pushes, timed

_LOG = logging.getLogger("bench")
_JOBS = (1, 4)
_DIMS = (1, 16, 64)
_SAME, _HIT, _COLD = "the same 32 keys", "hit", "cold"
_CALLS_PER_PACKET = 80  # fewer packets than the scale has calls, because evicting caches takes long
_ROUNDS = 5
"""Rounds of this section per round of the scale, because its rounds are short."""


def hits(stage: Stage) -> list[Result]:
    """Measure the median time of a packet by jobs, kind of keys and caches, and the ratio of hit to cold."""
    missing = counters.missing()
    if missing:
        _LOG.info("no counters of cache and TLB misses: %s", missing)
    with pinned({stage.cores.softswitch}):
        results = [result for jobs in _JOBS for result in _measure(stage, jobs, not missing)]
        return results + [result for dim in _DIMS for result in _measure_rows(stage, dim)]


def _measure(stage: Stage, jobs: int, has_counters: bool) -> Iterator[Result]:
    name = f"{jobs} job" if jobs == 1 else f"{jobs} jobs"
    stage.announce(f"hits, {name}")
    windows = stage.scale.calls // _CALLS_PER_PACKET // (WINDOW * jobs)
    packets = windows * WINDOW * jobs  # whole windows of each job's caller
    workloads = {
        _SAME: pushes.repeated_pushes(jobs, packets),
        _HIT: pushes.hot_pushes(jobs, packets),
        _COLD: pushes.cold_pushes(jobs, packets),
    }
    cases = [(what, evict) for what in workloads for evict in (False, True)]
    samples: dict[tuple[str, bool], dict[str, list[float]]] = {case: {} for case in cases}
    misses: dict[str, list[float]] = {}
    with _targets(stage, jobs) as targets:
        first_by_target = dict.fromkeys(targets, 0)  # number of the next packet
        for what, evict in cases * _ROUNDS * stage.scale.rounds:
            for target in stage.order.sample(list(targets), len(targets)):
                with counters.count_events(has_counters and not evict and target == SOFTSWITCH) as events:
                    times_ns = targets[target](workloads[what], first_by_target[target], evict)
                first_by_target[target] += packets
                samples[what, evict].setdefault(target, []).append(float(np.median(times_ns)))
                for event, count in events.items():
                    misses.setdefault(f"{what}: {event}", []).append(count / packets)
    for what, evict in cases:
        caches = "caches evicted" if evict else "caches warm"
        yield Result("hits", f"32 lanes, {what}, {name}, {caches}", "ns", samples[what, evict])
    for evict in (False, True):
        caches = "caches evicted" if evict else "caches warm"
        ratios = _ratios(samples[_HIT, evict], samples[_COLD, evict])
        yield Result("hits", f"32 lanes, hit / cold, {name}, {caches}", "", ratios)
    for what, counts in misses.items():
        yield Result("hits", f"32 lanes, {what}, {name}, caches warm", "a packet", {SOFTSWITCH: counts})


def _measure_rows(stage: Stage, dim: int) -> Iterator[Result]:
    """Measure the median time of a value in full pushes of hot rows."""
    stage.announce(f"hits, rows of {dim}")
    packets = stage.scale.calls // _CALLS_PER_PACKET // WINDOW * WINDOW
    workload = pushes.hot_pushes(1, packets, dim)
    samples: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
    with _targets(stage, 1, dim) as targets:
        del targets[C_LOOP]
        first_by_target = dict.fromkeys(targets, 0)
        for evict in [False, True] * _ROUNDS * stage.scale.rounds:
            for target in stage.order.sample(list(targets), len(targets)):
                times_ns = targets[target](workload, first_by_target[target], evict)
                first_by_target[target] += packets
                value_ns = float(np.median(times_ns)) / (lanes_of_dim(dim) * dim)
                samples[evict].setdefault(target, []).append(value_ns)
    for evict, by_target in samples.items():
        caches = "caches evicted" if evict else "caches warm"
        yield Result(
            "hits", f"{lanes_of_dim(dim)} rows of {dim}, hit, 1 job, {caches}", "ns a value", by_target
        )


def _ratios(hit: Mapping[str, list[float]], cold: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {
        target: [hit_ns / cold_ns for hit_ns, cold_ns in zip(hit[target], cold[target], strict=True)]
        for target in hit
        if target != C_LOOP
    }


@contextmanager
def _targets(stage: Stage, jobs: int, dim: int = 1) -> Iterator[dict[str, timed.Run]]:
    config = LoadedConfig.read(hotline.PROGRAM.json, hotline.PROGRAM.p4info)
    rows = pushes.hot_rows(jobs, dim)
    with ExitStack() as stack:
        pipeline = CompiledPipeline(config.program)
        install(config, pipeline, rows)
        targets = {SOFTSWITCH: timed.packet_function_run(pipeline)}
        if KERNEL in stage.switches():
            in_kernel = OnLoopback(config.program)
            stack.callback(in_kernel.close)
            install(config, in_kernel, rows)
            targets[KERNEL] = timed.kernel_run(in_kernel)
        yield targets | {C_LOOP: timed.c_loop_run(jobs * R1.hot)}


def install(config: LoadedConfig, pipeline: ControlPlane, rows: Iterable[TableRow]) -> None:
    """Insert rows into a pipeline; raise `BenchError` if it refuses a row."""
    try:
        RowWriter(ControlledPipeline(config, lambda _: pipeline, clock=lambda: 0)).insert(rows)
    except StateError as error:
        raise BenchError(
            f"{hotline.PROGRAM.json.name}: the pipeline refused entries of the bench: {error}"
        ) from error
