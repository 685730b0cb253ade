"""Make the trace that all arms replay, and tell what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from hosts.workload import libsvm, replay
from hosts.workload.generator import R1, generate
from hosts.workload.trace import Trace
from topologies.config import Config
from topologies.progress import Reporter


async def make_trace(config: Config, folder: Path, reporter: Reporter) -> Trace:
    """Write the trace into a folder and map it."""
    with reporter.phase("workload", 1.0) as phase:
        trace = await asyncio.to_thread(_make, config, phase.update)
        await asyncio.to_thread(trace.save, folder)
    return Trace.load(folder)


def describe(trace: Trace) -> dict[str, str | int | float | bool]:
    """For `run.json`."""
    return {
        "name": trace.name,
        "parameters": trace.space.size,
        "steps": trace.steps,
        "lanes_per_step": lanes_per_step(trace),
        "trains": trace.samples is not None,
    }


def lanes_per_step(trace: Trace) -> float:
    """Mean number of distinct parameters of a mini-batch."""
    return len(trace.position) / (trace.workers * trace.steps)


def _make(config: Config, progress: Callable[[float], None]) -> Trace:
    if config.data is None:
        return generate(R1, config.workers, config.trace_steps, config.seed, progress)
    if replay.is_update_log(config.data):
        return replay.load(config.data, config.workers)
    return libsvm.load(config.data, config.workers, config.samples_per_step)
